// The part of JSON Schema that spec/messages.schema.json uses. An unknown keyword is an error, so that a
// rule in the schema never passes unread.

export type Schema = {
  $schema?: string;
  $id?: string;
  title?: string;
  description?: string;
  $defs?: Record<string, Schema>;
  $ref?: string;
  type?: string;
  enum?: unknown[];
  pattern?: string;
  minLength?: number;
  minimum?: number;
  maximum?: number;
  minItems?: number;
  required?: string[];
  properties?: Record<string, Schema>;
  additionalProperties?: boolean | Schema;
  items?: Schema;
};

const KNOWN = new Set([
  "$schema", "$id", "title", "description", "$defs", "$ref", "type", "enum", "pattern", "minLength",
  "minimum", "maximum", "minItems", "required", "properties", "additionalProperties", "items",
]);

function typeOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  return typeof value;
}

/** Every place where value breaks the schema. */
export function validate(root: Schema, value: unknown): string[] {
  const problems: string[] = [];

  const visit = (schema: Schema, at: string, item: unknown): void => {
    for (const key of Object.keys(schema)) if (!KNOWN.has(key)) problems.push(`schema: keyword ${key} is not understood`);
    if (schema.$ref !== undefined) {
      const target = root.$defs?.[schema.$ref.replace("#/$defs/", "")];
      if (!target) problems.push(`schema: ${schema.$ref} leads nowhere`);
      else visit(target, at, item);
      return;
    }
    const type = typeOf(item);
    if (schema.type !== undefined && type !== schema.type && !(schema.type === "number" && type === "integer")) {
      problems.push(`${at}: ${type} instead of ${schema.type}`);
      return;
    }
    if (schema.enum && !schema.enum.includes(item)) problems.push(`${at}: ${JSON.stringify(item)} is not one of ${schema.enum.join(", ")}`);
    if (typeof item === "string") {
      if (schema.pattern !== undefined && !new RegExp(schema.pattern, "u").test(item)) problems.push(`${at}: "${item}" does not match ${schema.pattern}`);
      if (item.length < (schema.minLength ?? 0)) problems.push(`${at}: too short`);
    }
    if (typeof item === "number") {
      if (item < (schema.minimum ?? -Infinity)) problems.push(`${at}: ${item} is below ${schema.minimum}`);
      if (item > (schema.maximum ?? Infinity)) problems.push(`${at}: ${item} is above ${schema.maximum}`);
    }
    if (Array.isArray(item)) {
      if (item.length < (schema.minItems ?? 0)) problems.push(`${at}: fewer than ${schema.minItems} items`);
      item.forEach((entry, i) => {
        const name = typeof entry === "object" && entry !== null && "name" in entry ? String(entry.name) : String(i);
        if (schema.items) visit(schema.items, `${at}.${name}`, entry);
      });
    } else if (type === "object") {
      for (const key of schema.required ?? []) if (!Object.hasOwn(item as object, key)) problems.push(`${at}: ${key} is missing`);
      for (const [key, entry] of Object.entries(item as Record<string, unknown>)) {
        const known = schema.properties?.[key];
        if (known) visit(known, `${at}.${key}`, entry);
        else if (schema.additionalProperties === false) problems.push(`${at}: ${key} is unknown`);
        else if (typeof schema.additionalProperties === "object") visit(schema.additionalProperties, `${at}.${key}`, entry);
      }
    }
  };

  visit(root, "spec", value);
  return problems;
}
