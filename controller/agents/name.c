/* Routing names. Herdr finds an agent by one, so they stay plain ASCII whatever the label was. */
#include "controller/agents/call.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "controller/profiles/profile_internal.h"

#define NAME_MAX_LEN ((size_t)SHP_PROFILE_NAME_MAX)

/* Base letters of the accented Latin ones, from the canonical decompositions of Unicode 15; '-':
 * the character has none that is a plain letter. */
#define LATIN_1_FIRST 0xc0u
static const char latin_1[] =
    "aaaaaa-ceeeeiiii-nooooo--uuuuy--aaaaaa-ceeeeiiii-nooooo--uuuuy-yaaaaaaccccccccdd--eeeeeeeeee"
    "gggggggghh--iiiiiiiii---jjkk-llllll----nnnnnn---oooooo--rrrrrrsssssssstttt--uuuuuuuuuuuuwwyy"
    "yzzzzzz---------------------------------oo-------------uu----------------------------aaiioou"
    "uuuuuuuuu-aaaa----ggkkoooo--j---gg--nnaa----aaaaeeeeiiiioooorrrruuuusstt--hh------aaeeoooooo"
    "ooyy----------------------------";
#define LATIN_ADDITIONAL_FIRST 0x1e00u
static const char latin_additional[] =
    "aabbbbbbccddddddddddeeeeeeeeeeffgghhhhhhhhhhiiiikkkkkkllllllllmmmmmmnnnnnnnnoooooooopppprrrr"
    "rrrrssssssssssttttttttuuuuuuuuuuvvvvwwwwwwwwwwxxxxyyzzzzzzhtwy------aaaaaaaaaaaaaaaaaaaaaaaa"
    "eeeeeeeeeeeeeeeeiiiioooooooooooooooooooooooouuuuuuuuuuuuuuyyyyyyyy------";
_Static_assert(sizeof latin_1 - 1 == 0x250 - LATIN_1_FIRST, "one letter per character");
_Static_assert(sizeof latin_additional - 1 == 0x1f00 - LATIN_ADDITIONAL_FIRST,
               "one letter per character");

bool shp_name_valid(const char *name)
{
    return shp_profile_name_valid(name);
}

static uint32_t code_point(const uint8_t *text, size_t size)
{
    static const uint8_t first_bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t value = text[0] & first_bits[size];
    for (size_t i = 1; i < size; i++)
        value = value << 6 | (text[i] & 0x3fu);
    return value;
}

/* The small letter or digit, '-' for another character, 0 for a combining mark. */
static char plain(uint32_t code)
{
    if ((code >= 'a' && code <= 'z') || (code >= '0' && code <= '9'))
        return (char)code;
    if (code >= 'A' && code <= 'Z')
        return (char)(code - 'A' + 'a');
    if (code >= 0x300 && code <= 0x36f)
        return 0;
    if (code >= LATIN_1_FIRST && code < LATIN_1_FIRST + sizeof latin_1 - 1)
        return latin_1[code - LATIN_1_FIRST];
    if (code >= LATIN_ADDITIONAL_FIRST &&
        code < LATIN_ADDITIONAL_FIRST + sizeof latin_additional - 1)
        return latin_additional[code - LATIN_ADDITIONAL_FIRST];
    return '-';
}

static size_t trim_dashes(char *text, size_t len)
{
    while (len > 0 && text[len - 1] == '-')
        len--;
    text[len] = '\0';
    return len;
}

void shp_name_derive(char out[33], const char *label, unsigned attempt)
{
    static const char prefix[] = "agent-";
    char words[sizeof prefix + NAME_MAX_LEN + 1];
    size_t used = sizeof prefix - 1;
    memcpy(words, prefix, used);
    const uint8_t *text = (const uint8_t *)label;
    size_t len = strlen(label);
    /* Behind the prefix, which a name that begins with a letter does not keep. */
    for (size_t i = 0; i < len && used < sizeof words - 1;) {
        size_t size = shp_utf8_char(text + i, len - i);
        char c = size > 0 ? plain(code_point(text + i, size)) : '-';
        i += size > 0 ? size : 1;
        if (c == 0 || (c == '-' && words[used - 1] == '-'))
            continue;
        words[used++] = c;
    }
    used = trim_dashes(words, used);
    char *name = words;
    if (used > sizeof prefix - 1 && words[sizeof prefix - 1] >= 'a') {
        name += sizeof prefix - 1;
        used -= sizeof prefix - 1;
    }
    char suffix[16] = "";
    if (attempt > 1)
        snprintf(suffix, sizeof suffix, "-%u", attempt);
    size_t room = NAME_MAX_LEN - strlen(suffix);
    if (used > room)
        used = room;
    name[used] = '\0';
    used = trim_dashes(name, used);
    memcpy(out, name, used);
    memcpy(out + used, suffix, strlen(suffix) + 1);
}
