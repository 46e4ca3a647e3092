/** Text of others, made safe for a terminal: no control sequence of theirs reaches it. */

const TAB_WIDTH = 4;

/** Keeps line breaks; tabs become spaces, other control characters and bidirectional overrides disappear. */
export function plainText(text: string): string {
  return (
    text
      .replace(/\r\n?/gu, "\n")
      .replace(/\t/gu, " ".repeat(TAB_WIDTH))
      // Whole sequences first (CSI; OSC, DCS, SOS, PM, APC up to their end), then what is left of control characters.
      .replace(/\u001b\[[0-?]*[ -/]*[@-~]/gu, "")
      .replace(/\u001b[\]PX^_][\s\S]*?(?:\u0007|\u001b\\|$)/gu, "")
      .replace(/\u001b./gu, "")
      .replace(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/gu, "")
  );
}

/** One line, cut at `max` characters. */
export function oneLine(text: string, max: number): string {
  const line = plainText(text).replace(/\s+/gu, " ").trim();
  const characters = [...line];
  return characters.length <= max ? line : `${characters.slice(0, max - 1).join("")}…`;
}
