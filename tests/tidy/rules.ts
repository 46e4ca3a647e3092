// The repository's rules as data; tidy.test.ts applies them. A rule that changes, changes here.

/** Lines that a hand-written file may have: past this it is two rooms in one. */
export const LINES_MAX = 900;

/** The clang-format whose output is the rule. */
export const CLANG_FORMAT_MAJOR = 14;

/** Written by a generator or a tool; rules about size and wording do not apply. */
export const GENERATED = [
  "package-lock.json",
  "protocol/messages.c",
  "protocol/messages.h",
  "spec/messages.json",
  "spec/messages.md",
  "pi-ext/src/generated/",
  "spec/vectors/",
  "tests/fuzz/corpus/",
  "docs/bench/",
];

/**
 * Who may include whom: first matching path prefix decides; the value lists allowed prefixes of
 * project includes. `base <- framing <- protocol`, `base <- transport`, link over both, programs on top.
 */
export const INCLUDE_EDGES: readonly (readonly [string, readonly string[]])[] = [
  ["base/", ["base/"]],
  ["framing/", ["framing/", "base/"]],
  ["protocol/", ["protocol/", "framing/", "base/"]],
  ["transport/link", ["transport/", "protocol/", "framing/", "base/"]],
  // messages.h for the error codes that a person sees: they have one list. No function of protocol/.
  ["transport/", ["transport/transport", "transport/ssh", "protocol/messages.h", "base/"]],
  // The bootstrap reads the marker line and hands the channel on to a link.
  [
    "installer/",
    ["installer/", "transport/link.h", "transport/transport.h", "framing/preamble.h", "protocol/messages.h", "base/"],
  ],
  ["remote-helper/", ["remote-helper/", "transport/", "protocol/", "framing/", "base/", "shp_build_id.h"]],
  // Inside the controller: app -> {agents, tasks, monitor, diagnostics} -> routing -> fleet -> link.
  ["controller/profiles/", ["controller/profiles/", "controller/json.h", "controller/xalloc.h", "protocol/", "base/"]],
  ["controller/store/", ["controller/store/", "controller/json.h", "controller/xalloc.h", "protocol/", "base/"]],
  [
    "controller/fleet/",
    [
      "controller/fleet/", "controller/clock.h", "controller/context.h", "controller/json.h", "controller/settings.h",
      "controller/xalloc.h", "installer/", "transport/", "protocol/", "framing/", "base/", "shp_build_id.h",
    ],
  ],
  [
    "controller/routing/",
    [
      "controller/routing/", "controller/fleet/", "controller/store/", "controller/clock.h",
      "controller/context.h", "controller/json.h", "controller/xalloc.h", "protocol/", "base/",
    ],
  ],
  ["controller/", ["controller/", "installer/", "transport/", "protocol/", "framing/", "base/", "shp_build_id.h"]],
  // A stand-in for a foreign program must not share our code's mistakes.
  ["tests/herdr-sim/", ["tests/herdr-sim/"]],
  ["tests/", ["tests/", "controller/", "remote-helper/", "installer/", "transport/", "protocol/", "framing/", "base/", "shp_build_id.h"]],
];

/** Libraries and system parts that a folder must not see, each with the reason a reader would ask for. */
export const FORBIDDEN_INCLUDES: readonly (readonly [string, RegExp, string])[] = [
  ["base/", /^(uv|sqlite3|libssh\/|cjson\/)/, "base depends on libc and libsodium only"],
  ["framing/", /^(uv|sqlite3|libssh\/|cjson\/|time|sys\/|unistd|netinet\/|poll)/, "framing is pure: time and bytes are arguments"],
  ["protocol/", /^(uv|sqlite3|libssh\/|time|sys\/|unistd|netinet\/|poll)/, "protocol is pure: time and bytes are arguments"],
  ["transport/transport", /^(cjson\/|sqlite3)/, "a transport moves bytes and knows no messages"],
  ["remote-helper/", /^(sqlite3|libssh\/|pwd|netdb|grp)/, "the helper is static and small: no store, no ssh, no passwd, no resolver"],
  ["installer/", /^(sqlite3|libssh\/)/, "the installer is handed its channel"],
];

/** Modules of node that only the named files of pi-ext may import. */
export const NODE_MODULE_OWNERS: readonly (readonly [string, readonly string[]])[] = [
  ["node:net", ["pi-ext/src/receiver.ts", "pi-ext/src/terminal.ts", "pi-ext/src/connection.ts"]],
  ["node:child_process", ["pi-ext/src/controller.ts"]],
];

/** Words and shapes that must not be in the tree. Written so that this file does not contain them. */
export const FORBIDDEN_TEXT: readonly (readonly [RegExp, string])[] = [
  [new RegExp(`\\b(${["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"].join("|")})\\b`), "an unfinished mark"],
  [new RegExp(["not " + "implemented", "unimpl" + "emented"].join("|"), "i"), "an unfinished mark"],
  [new RegExp(`(^|[\\s"'=:(])/(${["wo" + "rk", "fa" + "rm", "ro" + "ot"].join("|")})/`), "a machine's path"],
  [new RegExp(`https?://(reg` + `istry|deb|snap` + `shot|archive|security)\\.`), "a download address"],
  [new RegExp(`"reso` + `lved":`), "a download address in a lock file"],
];

/** Files whose subject is one of the texts above. */
export const FORBIDDEN_TEXT_EXEMPT: readonly string[] = [];
