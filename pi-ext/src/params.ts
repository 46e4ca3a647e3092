/** Params, payloads and results checked against the tables of spec/messages.json. */
import { ShepherdrError } from "./errors.ts";
import type { FieldInfo, FieldTable } from "./generated/messages.ts";
import type { JsonObject } from "./frames.ts";

function fits(info: FieldInfo, value: unknown): boolean {
  switch (info.type) {
    case "string":
      return typeof value === "string" && Buffer.byteLength(value, "utf8") <= (info.max ?? Number.POSITIVE_INFINITY);
    case "int":
      return (
        typeof value === "number" &&
        Number.isInteger(value) &&
        value >= (info.min ?? Number.NEGATIVE_INFINITY) &&
        value <= (info.max ?? Number.POSITIVE_INFINITY)
      );
    case "bool":
      return typeof value === "boolean";
    case "enum":
      return typeof value === "string" && (info.values ?? []).includes(value);
    case "object":
      return typeof value === "object" && value !== null && !Array.isArray(value);
    case "array":
      return Array.isArray(value) && value.length <= (info.max ?? Number.POSITIVE_INFINITY);
  }
}

/** Throws `invalid_params` with the field's name; unknown fields are refused in params, ignored in results. */
export function checkFields(table: FieldTable, values: JsonObject, options: { step: string; unknown: "refuse" | "ignore" }): void {
  const bad = (field: string, what: string): ShepherdrError =>
    new ShepherdrError("invalid_params", { step: options.step, cause: `${field}: ${what}` });
  for (const [field, info] of Object.entries(table)) {
    if (!Object.hasOwn(values, field)) {
      if (!info.optional) throw bad(field, "missing");
    } else if (!fits(info, values[field])) throw bad(field, "wrong type or out of bounds");
  }
  if (options.unknown === "refuse") {
    for (const field of Object.keys(values)) if (!Object.hasOwn(table, field)) throw bad(field, "unknown field");
  }
}
