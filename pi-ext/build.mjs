// Bundles pi-ext into the one file that is pushed to other machines and packaged.
//
// usage: node pi-ext/build.mjs [OUTPUT]     default: build/pi-ext/pi-ext.mjs
// The output depends on the sources alone: no paths of this machine, no times.
import { mkdirSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "..");
const outfile = resolve(process.argv[2] ?? resolve(root, "build/pi-ext/pi-ext.mjs"));

mkdirSync(dirname(outfile), { recursive: true });
await build({
  absWorkingDir: root,
  entryPoints: ["pi-ext/src/index.ts"],
  outfile,
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node22.18",
  charset: "utf8",
  legalComments: "none",
  // Pi gives extensions its own copies of these.
  external: ["@earendil-works/*", "typebox"],
  logLevel: "warning",
});
