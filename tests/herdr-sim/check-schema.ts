// Checks a log of the stand-in (HERDR_SIM_LOG) against Herdr's published schema.
//
//   HERDR_API_SCHEMA=<file> node check-schema.ts [--allow-rejected] <log>...
//
// Exit 0: every line fits. 1: one does not; it is printed. 2: cannot check at all.
// --allow-rejected passes over requests that were answered with invalid_request, for tests that
// send such requests on purpose.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { Validator, type Schema } from "./schema.ts";

interface LogLine {
    t: number;
    dir: "request" | "response" | "event";
    conn: number;
    line: unknown;
}
type Schemas = Record<"error_response" | "event" | "request" | "subscription_event" | "success_response", Schema>;

export interface Problem {
    file: string;
    number: number;
    text: string;
    why: string;
}

function schemaFor(schemas: Schemas, entry: LogLine): Schema {
    const line = entry.line as Record<string, unknown>;
    if (typeof line !== "object" || line === null) return false;
    if (entry.dir === "request") return schemas.request;
    if ("error" in line) return schemas.error_response;
    if (entry.dir === "response") return schemas.success_response;
    return typeof line.event === "string" && line.event.includes(".") ? schemas.subscription_event : schemas.event;
}

function rejectedConnections(entries: LogLine[]): Set<number> {
    const rejected = new Set<number>();
    for (const { dir, conn, line } of entries) {
        const error = (line as { error?: { code?: string } } | null)?.error;
        if (dir === "response" && error?.code === "invalid_request") rejected.add(conn);
    }
    return rejected;
}

/** The first line of the log that does not fit, or undefined. */
export function checkLog(schemaText: string, file: string, logText: string, allowRejected: boolean): Problem | undefined {
    const root = JSON.parse(schemaText) as { schemas: Schemas };
    const validator = new Validator(root);
    const texts = logText.split("\n").filter((l) => l !== "");
    const entries = texts.map((l) => JSON.parse(l) as LogLine);
    const rejected = allowRejected ? rejectedConnections(entries) : new Set<number>();
    for (const [i, entry] of entries.entries()) {
        if (entry.dir === "request" && rejected.has(entry.conn)) continue;
        const why = validator.check(schemaFor(root.schemas, entry), entry.line);
        if (why) return { file, number: i + 1, text: texts[i] ?? "", why };
    }
    return undefined;
}

function main(args: string[]): number {
    const allowRejected = args.includes("--allow-rejected");
    const files = args.filter((a) => !a.startsWith("--"));
    const schemaFile = process.env.HERDR_API_SCHEMA;
    if (!schemaFile) {
        console.error("check-schema: HERDR_API_SCHEMA is not set");
        return 2;
    }
    if (files.length === 0) {
        console.error("usage: check-schema.ts [--allow-rejected] <log>...");
        return 2;
    }
    const schemaText = readFileSync(schemaFile, "utf8");
    for (const file of files) {
        const problem = checkLog(schemaText, file, readFileSync(file, "utf8"), allowRejected);
        if (problem) {
            console.error(`${problem.file}:${problem.number}: ${problem.why}\n${problem.text}`);
            return 1;
        }
    }
    return 0;
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
    try {
        process.exitCode = main(process.argv.slice(2));
    } catch (error) {
        console.error(`check-schema: ${error instanceof Error ? error.message : String(error)}`);
        process.exitCode = 2;
    }
}
