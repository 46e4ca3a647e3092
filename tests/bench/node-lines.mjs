/** Calls fn with every complete line of a stream. */
export function lines(stream, fn) {
    let parts = [];
    stream.setEncoding("utf8");
    stream.on("data", (chunk) => {
        const pieces = chunk.split("\n");
        for (const piece of pieces.slice(0, -1)) {
            parts.push(piece);
            fn(parts.join(""));
            parts = [];
        }
        parts.push(pieces.at(-1));
    });
}
