/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Codepoints as words: af11 ... af43, cs0 ... cs7, ef, in any case, or a number from 0 to 63.
 * Sources: RFC 2474 (cs), RFC 2597 (af), RFC 3246 (ef).
 */
#ifndef TC_DSCP_H
#define TC_DSCP_H

#include <ctype.h>
#include <strings.h>

#include "iproute2.h"

#define DSCP_ALLOWED "a codepoint: af11 to af43, cs0 to cs7, ef or a number from 0 to 63"

/* Return 0 if word names a codepoint. */
static inline int get_dscp(__u8 *dscp, const char *word)
{
	size_t length = strlen(word);

	if (!strcasecmp(word, "ef")) {
		*dscp = 46;
		return 0;
	}
	if (length == 3 && !strncasecmp(word, "cs", 2) && word[2] >= '0' && word[2] <= '7') {
		*dscp = (word[2] - '0') << 3;
		return 0;
	}
	if (length == 4 && !strncasecmp(word, "af", 2)) {
		int class = word[2] - '0', precedence = word[3] - '0';

		*dscp = class << 3 | precedence << 1;
		return class < 1 || class > 4 || precedence < 1 || precedence > 3;
	}
	if (!isdigit((unsigned char)*word) || get_u8(dscp, word, 0))
		return -1;
	return *dscp > 63;
}

/* The word for a codepoint, or its number as text in buffer. */
static inline const char *dscp_word(__u8 dscp, char buffer[8])
{
	int class = dscp >> 3, precedence = (dscp & 7) >> 1;

	if (dscp == 46)
		return "ef";
	if (!(dscp & 7))
		snprintf(buffer, 8, "cs%u", (unsigned int)(dscp >> 3));
	else if (!(dscp & 1) && class >= 1 && class <= 4)
		snprintf(buffer, 8, "af%d%d", class, precedence);
	else
		snprintf(buffer, 8, "%u", (unsigned int)dscp);
	return buffer;
}

/* Show a codepoint: as text its word, as JSON its number under key. */
static inline void print_dscp(const char *key, __u8 dscp)
{
	char buffer[8];

	print_string(PRINT_FP, NULL, "%s ", dscp_word(dscp, buffer));
	print_uint(PRINT_JSON, key, NULL, dscp);
}

#endif /* TC_DSCP_H */
