// A JSON Schema validator for the subset that Herdr's published schema uses. An unknown keyword is
// an error: a check that silently ignores a rule would prove nothing.

export type Schema = boolean | { readonly [keyword: string]: unknown };

const ANNOTATIONS = new Set(["$schema", "$defs", "title", "description", "default", "format"]);

function isObject(value: unknown): value is Record<string, unknown> {
    return typeof value === "object" && value !== null && !Array.isArray(value);
}

function typeMatches(type: string, value: unknown): boolean {
    switch (type) {
        case "null":
            return value === null;
        case "array":
            return Array.isArray(value);
        case "object":
            return isObject(value);
        case "integer":
            return Number.isInteger(value);
        default:
            return typeof value === type;
    }
}

export class Validator {
    readonly #root: unknown;

    constructor(root: unknown) {
        this.#root = root;
    }

    #resolve(ref: string): Schema {
        let at: unknown = this.#root;
        for (const part of ref.replace(/^#\//, "").split("/")) at = isObject(at) ? at[part] : undefined;
        if (at === undefined) throw new Error(`schema: cannot resolve ${ref}`);
        return at as Schema;
    }

    /** What is wrong with value, or undefined. */
    check(schema: Schema, value: unknown, path = "$"): string | undefined {
        if (schema === true) return undefined;
        if (schema === false) return `${path}: nothing is allowed here`;
        for (const [keyword, rule] of Object.entries(schema)) {
            const wrong = this.#keyword(schema, keyword, rule, value, path);
            if (wrong) return wrong;
        }
        return undefined;
    }

    #keyword(schema: Exclude<Schema, boolean>, keyword: string, rule: unknown, value: unknown, path: string): string | undefined {
        if (ANNOTATIONS.has(keyword)) return undefined;
        switch (keyword) {
            case "$ref":
                return this.check(this.#resolve(rule as string), value, path);
            case "type": {
                const types = Array.isArray(rule) ? (rule as string[]) : [rule as string];
                return types.some((t) => typeMatches(t, value)) ? undefined : `${path}: not ${types.join(" or ")}`;
            }
            case "const":
                return JSON.stringify(value) === JSON.stringify(rule) ? undefined : `${path}: not ${JSON.stringify(rule)}`;
            case "enum":
                return (rule as unknown[]).includes(value) ? undefined : `${path}: ${JSON.stringify(value)} is not in the list`;
            case "required":
                return this.#required(rule as string[], value, path);
            case "properties":
                return this.#properties(rule as Record<string, Schema>, value, path);
            case "additionalProperties":
                return this.#additional(schema, rule as Schema, value, path);
            case "items":
                return this.#items(rule as Schema, value, path);
            case "oneOf":
            case "anyOf":
                return this.#alternatives(keyword, rule as Schema[], value, path);
            case "allOf":
                return (rule as Schema[]).map((s) => this.check(s, value, path)).find((w) => w !== undefined);
            case "not":
                return this.check(rule as Schema, value, path) ? undefined : `${path}: matches what it must not`;
            case "pattern":
                return typeof value !== "string" || new RegExp(rule as string, "u").test(value) ? undefined : `${path}: does not match ${rule}`;
            case "propertyNames":
                return isObject(value) ? Object.keys(value).map((k) => this.check(rule as Schema, k, `${path}.${k}`)).find((w) => w !== undefined) : undefined;
            default:
                return this.#bounds(keyword, rule as number, value, path);
        }
    }

    #bounds(keyword: string, limit: number, value: unknown, path: string): string | undefined {
        const size = typeof value === "string" ? [...value].length : Array.isArray(value) ? value.length : isObject(value) ? Object.keys(value).length : 0;
        const number = typeof value === "number" ? value : undefined;
        const text = typeof value === "string";
        const list = Array.isArray(value);
        const rules: Record<string, boolean> = {
            minimum: number === undefined || number >= limit,
            maximum: number === undefined || number <= limit,
            minLength: !text || size >= limit,
            maxLength: !text || size <= limit,
            minItems: !list || size >= limit,
            maxItems: !list || size <= limit,
            minProperties: !isObject(value) || size >= limit,
            maxProperties: !isObject(value) || size <= limit,
        };
        const fits = rules[keyword];
        if (fits === undefined) throw new Error(`schema: unknown keyword ${keyword}`);
        return fits ? undefined : `${path}: breaks ${keyword} ${limit}`;
    }

    #required(names: string[], value: unknown, path: string): string | undefined {
        if (!isObject(value)) return undefined;
        const missing = names.find((n) => !(n in value));
        return missing === undefined ? undefined : `${path}: ${missing} is missing`;
    }

    #properties(rules: Record<string, Schema>, value: unknown, path: string): string | undefined {
        if (!isObject(value)) return undefined;
        for (const [name, rule] of Object.entries(rules)) {
            if (!(name in value)) continue;
            const wrong = this.check(rule, value[name], `${path}.${name}`);
            if (wrong) return wrong;
        }
        return undefined;
    }

    #additional(schema: Exclude<Schema, boolean>, rule: Schema, value: unknown, path: string): string | undefined {
        if (!isObject(value)) return undefined;
        const known = isObject(schema.properties) ? schema.properties : {};
        for (const [name, item] of Object.entries(value)) {
            if (name in known) continue;
            const wrong = this.check(rule, item, `${path}.${name}`);
            if (wrong) return wrong;
        }
        return undefined;
    }

    #items(rule: Schema, value: unknown, path: string): string | undefined {
        if (!Array.isArray(value)) return undefined;
        for (const [i, item] of value.entries()) {
            const wrong = this.check(rule, item, `${path}[${i}]`);
            if (wrong) return wrong;
        }
        return undefined;
    }

    #alternatives(keyword: "oneOf" | "anyOf", list: Schema[], value: unknown, path: string): string | undefined {
        const wrongs = list.map((s) => this.check(s, value, path));
        const hits = wrongs.filter((w) => w === undefined).length;
        if (hits === 1 || (hits > 1 && keyword === "anyOf")) return undefined;
        if (hits > 1) return `${path}: matches ${hits} alternatives of oneOf`;
        // Alternatives told apart by a constant (a method, a type) are no candidates for the reason.
        const telling = wrongs.filter((w) => w !== undefined && !/: not "[^"]*"$/.test(w));
        return telling[0] ?? `${path}: none of ${list.length} alternatives fits`;
    }
}
