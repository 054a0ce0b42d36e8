import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { setTimeout } from "node:timers/promises";
import type { ObjectStore, StoreState } from "./object-store.ts";
import { isRecord, type StoredObject, serialise } from "./objects.ts";

const FORMAT = 1;
/** A write is on disk this long after it was made, so a killed process loses no more than that. */
const DELAY_MS = 50;
/** resourceVersions that may be given out between two writes of the file. */
const RESERVE = 100_000;

/**
 * Reads what an earlier run left. `undefined` when there is no file yet.
 *
 * @throws Error when the file is not ours: a sandbox must not overwrite what it cannot read.
 */
export function loadState(file: string): StoreState | undefined {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if (isRecord(error) && error.code === "ENOENT") return undefined;
    throw error;
  }
  let content: unknown;
  try {
    content = JSON.parse(text);
  } catch (cause) {
    throw new Error(`${file} is not a sandbox data file: it is no JSON`, { cause });
  }
  if (!isRecord(content) || content.format !== FORMAT || !Array.isArray(content.objects)) {
    throw new Error(`${file} is not a sandbox data file of format ${FORMAT}`);
  }
  return {
    resourceVersion: Number(content.resourceVersion),
    objects: content.objects as StoredObject[],
  };
}

/**
 * Keeps a store's state in one file, replaced whole. The resourceVersion in the file lies ahead of the
 * store's, so that after a crash none is given out twice even when the last writes are lost.
 */
export class Persistence {
  readonly #file: string;
  readonly #store: ObjectStore;
  readonly #log: (message: string) => void;
  readonly #unsubscribe: () => void;
  readonly #abort = new AbortController();
  #reserved = 0;
  #isDirty = false;
  #writing: Promise<void> | undefined;

  constructor(file: string, store: ObjectStore, log: (message: string) => void) {
    this.#file = file;
    this.#store = store;
    this.#log = log;
    mkdirSync(dirname(file), { recursive: true });
    // The reservation has to be on disk before the first resourceVersion is given out.
    this.#reserve();
    this.#unsubscribe = store.subscribe(() => this.#schedule());
  }

  /** Writes a last time; the next run goes on with the very next resourceVersion. */
  async stop(): Promise<void> {
    this.#unsubscribe();
    this.#abort.abort();
    await this.#writing;
    this.#replace(this.#format(this.#store.resourceVersion));
  }

  #schedule(): void {
    if (this.#store.resourceVersion >= this.#reserved) this.#reserve();
    this.#isDirty = true;
    this.#writing ??= this.#writeWhileDirty();
  }

  /** One at a time: two writes of the temporary file at once would mix. */
  async #writeWhileDirty(): Promise<void> {
    const { signal } = this.#abort;
    while (this.#isDirty && !signal.aborted) {
      await setTimeout(DELAY_MS, undefined, { signal }).catch(() => undefined);
      this.#isDirty = false;
      if (!signal.aborted) await this.#write();
    }
    this.#writing = undefined;
  }

  async #write(): Promise<void> {
    const reserved = this.#store.resourceVersion + RESERVE;
    const before = this.#reserved;
    const temporary = `${this.#file}.next`;
    try {
      await writeFile(temporary, this.#format(reserved));
      // A reservation made meanwhile is newer than what was just written.
      if (this.#reserved !== before) return;
      renameSync(temporary, this.#file);
      this.#reserved = reserved;
    } catch (error) {
      this.#log(`sandbox: the state could not be written to ${this.#file}: ${String(error)}`);
    }
  }

  /** Writes at once. Until this is on disk no resourceVersion beyond the last reservation may be given out. */
  #reserve(): void {
    const reserved = this.#store.resourceVersion + RESERVE;
    this.#replace(this.#format(reserved));
    this.#reserved = reserved;
  }

  #replace(content: string): void {
    const temporary = `${this.#file}.last`;
    writeFileSync(temporary, content);
    renameSync(temporary, this.#file);
    rmSync(`${this.#file}.next`, { force: true });
  }

  #format(resourceVersion: number): string {
    const objects = [...this.#store.all()].map(serialise).join(",\n");
    return `{"format":${FORMAT},"resourceVersion":${resourceVersion},"objects":[\n${objects}\n]}\n`;
  }
}
