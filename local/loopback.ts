import { readdirSync, readFileSync, readlinkSync } from "node:fs";

/** A socket that a process listens on. */
export interface ListeningSocket {
  /** As written: `127.0.0.1`, `0.0.0.0`, or the hex of an IPv6 address. */
  readonly address: string;
  readonly port: number;
  readonly isLoopback: boolean;
}

const LISTEN = "0A";
const LOOPBACK_V6 = "00000000000000000000000001000000";
/** `::ffff:127.0.0.1`, whose last word is in the machine's byte order. */
const LOOPBACK_MAPPED = /^0000000000000000FFFF0000[0-9A-F]{6}7F$/;

/** The sockets that a process of ours listens on, from `/proc`; `undefined` where the system has none. */
export function readListeningSockets(pid: number | "self" = "self"): readonly ListeningSocket[] | undefined {
  let inodes: Set<string>;
  try {
    inodes = readSocketInodes(`/proc/${pid}/fd`);
  } catch {
    return undefined;
  }
  return ["tcp", "tcp6"].flatMap((table) => {
    let text: string;
    try {
      text = readFileSync(`/proc/${pid}/net/${table}`, "utf8");
    } catch {
      return [];
    }
    return text
      .split("\n")
      .slice(1)
      .flatMap((line): ListeningSocket[] => {
        const [, local = "", , state, , , , , , inode = ""] = line.trim().split(/\s+/);
        if (state !== LISTEN || !inodes.has(inode)) return [];
        const [address = "", port = ""] = local.split(":");
        return [{ ...describeAddress(address), port: Number.parseInt(port, 16) }];
      });
  });
}

function readSocketInodes(folder: string): Set<string> {
  const inodes = new Set<string>();
  for (const name of readdirSync(folder)) {
    try {
      const inode = /^socket:\[(\d+)\]$/.exec(readlinkSync(`${folder}/${name}`))?.[1];
      if (inode !== undefined) inodes.add(inode);
    } catch {
      // Closed since it was listed.
    }
  }
  return inodes;
}

function describeAddress(hex: string): { readonly address: string; readonly isLoopback: boolean } {
  if (hex.length > 8) {
    return { address: hex, isLoopback: hex === LOOPBACK_V6 || LOOPBACK_MAPPED.test(hex) };
  }
  // IPv4 stands in the machine's byte order: 0100007F is 127.0.0.1.
  const bytes = (hex.match(/../g) ?? []).map((byte) => Number.parseInt(byte, 16)).reverse();
  return { address: bytes.join("."), isLoopback: bytes[0] === 127 };
}
