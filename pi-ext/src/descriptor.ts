/**
 * How helpers find this session: one descriptor per live receiver, and its socket beside it.
 *
 * The directory is 0700, descriptor and socket 0600. The descriptor is written under another name
 * and renamed, re-made when it is missing, and touched, so that a fresh one is known to be alive.
 * What is left of dead processes is removed by the next receiver that starts here.
 */
import { createHash, randomBytes } from "node:crypto";
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { PROTOCOL } from "./generated/messages.ts";

export type Descriptor = {
  version: 1;
  socket: string;
  host: string;
  agent_dir: string;
  pi_session_id: string;
  session_file: string;
  terminal_id?: string;
  pid: number;
  start?: number;
  token: string;
  protocol: [number, number];
};

/** Longest socket path that every system takes. */
export const SOCKET_PATH_BYTES_MAX = 100;
/** A live owner touches its descriptor twice in this time. */
export const FRESH_MS = 75_000;
const DESCRIPTOR_BYTES_MAX = 65536;

const hash = (text: string, digits: number): string => createHash("sha256").update(text, "utf8").digest("hex").slice(0, digits);

/** Boot id: equal for all homes of one running system. Empty where the system has none. */
export function hostId(): string {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  } catch {
    return "";
  }
}

/** Start time of a process, field 22 of its stat; undefined without /proc or when it is gone. */
export function processStart(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const start = Number(fields[19]);
    return Number.isSafeInteger(start) ? start : undefined;
  } catch {
    return undefined;
  }
}

function processLives(pid: number, start: number | undefined): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EPERM") return false;
  }
  const now = processStart(pid);
  return start === undefined || now === undefined || now === start;
}

/** A directory of ours with mode 0700; throws when something else is in its place. */
export function ownDirectory(path: string): void {
  mkdirSync(path, { recursive: true, mode: 0o700 });
  const stat = lstatSync(path);
  if (!stat.isDirectory()) throw new Error(`${path} is not a directory`);
  if (process.getuid !== undefined && stat.uid !== process.getuid()) throw new Error(`${path} belongs to another user`);
  if ((stat.mode & 0o777) !== 0o700) chmodSync(path, 0o700);
}

/** Short directory for sockets when the path beside the descriptor would be too long. */
export function fallbackSocketDir(home: string = homedir()): string {
  return join("/tmp", `shepherdr-${process.getuid?.() ?? 0}-${hash(home, 8)}`);
}

export function descriptorPath(dir: string, piSessionId: string): string {
  return join(dir, `${hash(piSessionId, 32)}.json`);
}

/** Names carry the pid, so that sockets of dead processes are recognised without a descriptor. */
export function socketName(piSessionId: string): string {
  return `${hash(piSessionId, 8)}-${process.pid}-${randomBytes(2).toString("hex")}.sock`;
}

export function newToken(): string {
  return randomBytes(32).toString("hex");
}

export function readDescriptor(path: string): Descriptor | undefined {
  try {
    const stat = lstatSync(path);
    if (!stat.isFile() || stat.size > DESCRIPTOR_BYTES_MAX) return undefined;
    const value = JSON.parse(readFileSync(path, "utf8")) as Partial<Descriptor>;
    if (typeof value.socket !== "string" || typeof value.token !== "string" || typeof value.pid !== "number") return undefined;
    return value as Descriptor;
  } catch {
    return undefined;
  }
}

export function writeDescriptor(path: string, descriptor: Descriptor): void {
  const temporary = `${path}.${randomBytes(4).toString("hex")}.tmp`;
  try {
    writeFileSync(temporary, `${JSON.stringify(descriptor)}\n`, { mode: 0o600, flag: "wx" });
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}

/**
 * Keep ours in place: touched when it stands there, written when it is missing or dead. The file
 * of another live process on the same session is left alone; false says so.
 */
export function keepDescriptor(path: string, descriptor: Descriptor): boolean {
  const found = readDescriptor(path);
  if (found?.token === descriptor.token) {
    if (JSON.stringify(found) !== JSON.stringify(descriptor)) writeDescriptor(path, descriptor);
    else {
      const now = new Date();
      utimesSync(path, now, now);
    }
    return true;
  }
  if (found !== undefined && found.pid !== process.pid && found.host === descriptor.host && processLives(found.pid, found.start)) {
    return false;
  }
  writeDescriptor(path, descriptor);
  return true;
}

export function removeDescriptor(path: string, token: string): void {
  if (readDescriptor(path)?.token === token) rmSync(path, { force: true });
}

function ageMs(path: string): number {
  try {
    return Date.now() - lstatSync(path).mtimeMs;
  } catch {
    return 0;
  }
}

function sweepSockets(dir: string, live: Set<string>): void {
  let names: string[];
  try {
    names = readdirSync(dir);
  } catch {
    return;
  }
  for (const name of names) {
    const match = /^[0-9a-f]{8}-(\d+)-[0-9a-f]{4}\.sock$/u.exec(name);
    if (match === null) continue;
    const path = join(dir, name);
    if (live.has(path) || ageMs(path) < FRESH_MS || processLives(Number(match[1]), undefined)) continue;
    try {
      unlinkSync(path);
    } catch {
      // Another receiver sweeps at the same time, or it is not ours to remove.
    }
  }
}

/** Remove what dead receivers left in `dir` and in the socket directory. */
export function sweep(dir: string, host: string): void {
  let names: string[];
  try {
    names = readdirSync(dir);
  } catch {
    return;
  }
  const live = new Set<string>();
  for (const name of names) {
    const path = join(dir, name);
    if (name.endsWith(".tmp") && ageMs(path) >= FRESH_MS) rmSync(path, { force: true });
    if (!/^[0-9a-f]{32}\.json$/u.test(name)) continue;
    const found = readDescriptor(path);
    if (found === undefined) {
      if (ageMs(path) >= FRESH_MS) rmSync(path, { force: true });
      continue;
    }
    // On a home that several systems share, another host's live receiver keeps its file fresh.
    const dead = found.host === host ? !processLives(found.pid, found.start) : ageMs(path) >= FRESH_MS;
    if (!dead) {
      live.add(found.socket);
      continue;
    }
    rmSync(path, { force: true });
    if (found.socket.startsWith(`${dir}/`) || found.socket.startsWith(`${fallbackSocketDir()}/`)) {
      rmSync(found.socket, { force: true });
    }
  }
  sweepSockets(dir, live);
  sweepSockets(fallbackSocketDir(), live);
}

export const PROTOCOL_RANGE: [number, number] = [PROTOCOL.versionMin, PROTOCOL.versionMax];
