declare module "dynalite" {
  import type { Server } from "node:http";

  interface Options {
    path?: string;
    createTableMs?: number;
    updateTableMs?: number;
    deleteTableMs?: number;
  }
  export default function dynalite(options?: Options): Server;
}
