/*
 * Frames: a u32 length, a body, and in the body (after decryption, where the suite has it) an
 * 8-byte header and the payload. spec/protocol.md 2 and 3. Knows no meaning of types; the numbers
 * here are tied to spec/messages.json by assertions in protocol/.
 */
#ifndef SHP_FRAMING_FRAME_H
#define SHP_FRAMING_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHP_FRAME_LENGTH_BYTES 4
#define SHP_FRAME_HEADER_BYTES 8
#define SHP_FRAME_PAYLOAD_MAX 65511
#define SHP_FRAME_FLAG_FIN 1

struct shp_frame {
    uint8_t type;
    bool fin;
    uint32_t stream;
    const uint8_t *payload; /* borrowed from the body */
    size_t payload_len;
};

void shp_frame_put_length(uint8_t out[SHP_FRAME_LENGTH_BYTES], uint32_t body_len);
void shp_frame_put_header(uint8_t out[SHP_FRAME_HEADER_BYTES], uint8_t type, bool fin,
                          uint32_t stream);

/*
 * Take a body apart. PROTOCOL: shorter than a header, longer than a payload may be, an unknown
 * flag, or a reserved field that is not 0.
 */
int shp_frame_parse(struct shp_frame *frame, const uint8_t *body, size_t len);

/* ---- reading ------------------------------------------------------------------------------- */

enum shp_frame_reader_state {
    SHP_FRAME_READ_LENGTH, /* some of the four length bytes are missing */
    SHP_FRAME_READ_BODY,   /* the length is known, some of the body is missing */
};

/*
 * Cuts a byte stream into bodies. Memory is taken when the first body does not arrive whole, or
 * when the owner asks for the buffer, and kept for the next one.
 */
struct shp_frame_reader {
    enum shp_frame_reader_state state;
    uint8_t length[SHP_FRAME_LENGTH_BYTES];
    size_t have; /* bytes of length, or of the body */
    uint32_t body_len;
    uint32_t body_min;
    uint32_t body_max;
    uint8_t *buffer;
    size_t buffer_size;
};

/* Bodies shorter than body_min or longer than body_max end the stream. */
void shp_frame_reader_init(struct shp_frame_reader *reader, uint32_t body_min, uint32_t body_max);
void shp_frame_reader_fini(struct shp_frame_reader *reader); /* wipes */

/*
 * Take bytes. *body is NULL while one is incomplete; else it points into in, or at the reader's own
 * buffer, and *taken is behind its last byte. Borrowed until the next call. PROTOCOL: a length out
 * of bounds; NOMEM.
 */
int shp_frame_reader_feed(struct shp_frame_reader *reader, const uint8_t *in, size_t len,
                          size_t *taken, const uint8_t **body, size_t *body_len);

/*
 * The reader's buffer, at least size bytes, contents kept: to decrypt a body into, whether it lies
 * there already (in place) or in the input. NOMEM.
 */
int shp_frame_reader_buffer(struct shp_frame_reader *reader, size_t size, uint8_t **buffer);

/* Give the buffer back while no frame is half read. */
void shp_frame_reader_trim(struct shp_frame_reader *reader);

/* ---- integers on the wire: little-endian --------------------------------------------------- */

static inline void shp_put_u16(uint8_t *out, uint16_t value)
{
    out[0] = (uint8_t)value;
    out[1] = (uint8_t)(value >> 8);
}

static inline void shp_put_u32(uint8_t *out, uint32_t value)
{
    shp_put_u16(out, (uint16_t)value);
    shp_put_u16(out + 2, (uint16_t)(value >> 16));
}

static inline uint16_t shp_get_u16(const uint8_t *in)
{
    return (uint16_t)(in[0] | in[1] << 8);
}

static inline uint32_t shp_get_u32(const uint8_t *in)
{
    return (uint32_t)shp_get_u16(in) | (uint32_t)shp_get_u16(in + 2) << 16;
}

#endif
