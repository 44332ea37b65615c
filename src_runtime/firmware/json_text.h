/* The characters of JSON texts, for both readers of them: escapes and UTF-8. A text is known to end with
 * a quotation mark, beyond which nothing here reads. Not inline: that would make firmware larger. */
#ifndef TVMRT_SRC_RUNTIME_FIRMWARE_JSON_TEXT_H_
#define TVMRT_SRC_RUNTIME_FIRMWARE_JSON_TEXT_H_

#include <stddef.h>
#include <stdint.h>

/* Four hexadecimal digits; 0, which no text has, if there are others, before the first of which *text
 * then stops. */
static uint32_t tvmrt__json_hex(const char** text) {
  uint32_t value = 0;
  int i;
  for (i = 0; i < 4; ++i) {
    unsigned char c = (unsigned char)**text;
    if (c >= '0' && c <= '9') {
      value = value * 16 + (c - '0');
    } else if ((c | 32) >= 'a' && (c | 32) <= 'f') {
      value = value * 16 + ((c | 32) - 'a') + 10;
    } else {
      return 0;
    }
    ++*text;
  }
  return value;
}

/* The character whose escape begins behind a backslash at *text, which moves past it; 0 if it is none. */
static uint32_t tvmrt__json_escape(const char** text) {
  static const char from[] = "\"\\/bfnrt";
  static const char to[] = "\"\\/\b\f\n\r\t";
  char c = *(*text)++;
  uint32_t value;
  size_t i;
  if (c != 'u') {
    for (i = 0; from[i] != '\0' && from[i] != c; ++i) {
    }
    return (uint32_t)to[i];
  }
  value = tvmrt__json_hex(text);
  if (value >= 0xd800 && value < 0xdc00 && (*text)[0] == '\\' && (*text)[1] == 'u') {
    *text += 2;
    value = 0x10000 + ((value - 0xd800) << 10) + ((tvmrt__json_hex(text) - 0xdc00) & 0x3ff);
  }
  return value;
}

/* UTF-8 of a character, 1 to 4 bytes at `out`. Returns their number. */
static size_t tvmrt__json_utf8(uint32_t c, char* out) {
  size_t more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  size_t i;
  for (i = more; i > 0; --i, c >>= 6) out[i] = (char)(0x80 | (c & 0x3f));
  out[0] = (char)(more == 0 ? c : ((0xf0u << (3 - more)) & 0xf0) | c);
  return more + 1;
}

#endif /* TVMRT_SRC_RUNTIME_FIRMWARE_JSON_TEXT_H_ */
