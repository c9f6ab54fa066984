/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The words of a kind as tables: read from the command line into netlink
 * attributes, and shown from them. One row per word, so that what can be set
 * is what is shown, under the same name. Tables end with a row without a name,
 * lists of them with NULL.
 */
#ifndef TC_WORDS_H
#define TC_WORDS_H

#include <ctype.h>
#include <stdlib.h>

#include "dscp.h"
#include "iproute2.h"

enum word_value {
	WORD_SIZE,		/* u32, bytes */
	WORD_PROBABILITY,	/* u32, Q0.32: 2^32 - 1 stands for 1 */
	WORD_RATE,		/* u64, bytes/s */
	WORD_TIME,		/* u32, us */
	WORD_TIME_NS,		/* u32, ns */
	WORD_MBIT,		/* u32, Mbit/s */
	WORD_U8,
	WORD_U32,
	WORD_U64,
	WORD_DSCP,		/* u8 */
	WORD_CHOICE,		/* u8, index of choices */
	WORD_ON_OFF,		/* u8 */
};

struct word {
	const char *name;
	int attr;		/* netlink attribute */
	enum word_value value;
	const char *const *choices;	/* up to NULL */
	const char *allowed;	/* what a message says of the value; may be left out */
};

#define WORDS_MAX	32

static inline int get_bytes(__u32 *bytes, const char *text)
{
	char *suffix;
	double number = strtod(text, &suffix);
	const char *units = "kmg", *unit = NULL;

	if (*suffix)
		unit = strchr(units, tolower((unsigned char)*suffix));
	for (long power = unit ? unit - units + 1 : 0; power > 0; power--)
		number *= 1024;
	/* get_size takes a sign and wraps around. */
	if (!isdigit((unsigned char)*text) || number > UINT32_MAX)
		return -1;
	return get_size(bytes, text);
}

static inline int get_probability(__u32 *probability, const char *text)
{
	char *end;
	double p = strtod(text, &end), scaled = p * 4294967296.0 + 0.5;

	if (end == text || *end || !(p >= 0 && p <= 1))
		return -1;
	*probability = scaled < 4294967295.0 ? (__u32)scaled : UINT32_MAX;
	return 0;
}

/* A unit must be there: tc's own kinds differ in what a bare number is. */
static inline int get_us(__u32 *us, const char *text)
{
	const char *units = text + strspn(text, "0123456789.");
	__s64 ns;

	if (!isdigit((unsigned char)*text) || !*units || get_time64(&ns, text))
		return -1;
	*us = ns / 1000;
	return ns % 1000 || ns / 1000 > UINT32_MAX;
}

/* Nothing takes 0, whatever the unit. */
static inline int get_ns(__u32 *ns, const char *text)
{
	const char *units = text + strspn(text, "0123456789.");
	__s64 value;

	if (!isdigit((unsigned char)*text) || get_time64(&value, text))
		return -1;
	*ns = value;
	return value > UINT32_MAX || (value && !*units);
}

static inline int get_mbit(__u32 *mbit, const char *text)
{
	char *unit;
	unsigned long value = strtoul(text, &unit, 10);

	*mbit = value;
	return !isdigit((unsigned char)*text) || value > UINT32_MAX || strcasecmp(unit, "mbit");
}

static inline int get_choice(__u8 *choice, const char *text, const char *const *choices)
{
	for (*choice = 0; choices[*choice]; (*choice)++)
		if (!strcmp(text, choices[*choice]))
			return 0;
	return -1;
}

static inline const char *word_allowed(const struct word *word)
{
	static const char *const allowed[] = {
		[WORD_SIZE] = "a size in bytes, as 50000 or 50kb (1024 each), below 4gb",
		[WORD_PROBABILITY] = "a number from 0 to 1",
		[WORD_RATE] = "a rate, as 10mbit",
		[WORD_TIME] = "a time with its unit, as 400ms or 500us",
		[WORD_TIME_NS] = "0 or a time with its unit, as 5us or 500ns",
		[WORD_MBIT] = "a rate in mbit, as 10mbit",
		[WORD_U8] = "a number from 0 to 255",
		[WORD_U32] = "a number from 0 to 4294967295",
		[WORD_U64] = "a number from 0 to 18446744073709551615",
		[WORD_DSCP] = DSCP_ALLOWED,
		[WORD_ON_OFF] = "on or off",
		[WORD_CHOICE] = "one of those that 'help' shows",
	};

	return word->allowed ? word->allowed : allowed[word->value];
}

static inline void refuse_value(const struct word *word, const char *text)
{
	char message[160];

	snprintf(message, sizeof(message), "%s is %s", word->name, word_allowed(word));
	invarg(message, text);
}

static inline void add_u8(struct nlmsghdr *n, const struct word *word, const char *text)
{
	static const char *const off_on[] = { "off", "on", NULL };
	int wrong;
	__u8 value;

	if (word->value == WORD_DSCP)
		wrong = get_dscp(&value, text);
	else if (word->value == WORD_U8)
		wrong = !isdigit((unsigned char)*text) || get_u8(&value, text, 0);
	else
		wrong = get_choice(&value, text, word->choices ? word->choices : off_on);
	if (wrong)
		refuse_value(word, text);
	addattr8(n, MAX_MSG, word->attr, value);
}

static inline void add_u32(struct nlmsghdr *n, const struct word *word, const char *text)
{
	int wrong;
	__u32 value;

	if (word->value == WORD_SIZE)
		wrong = get_bytes(&value, text);
	else if (word->value == WORD_PROBABILITY)
		wrong = get_probability(&value, text);
	else if (word->value == WORD_TIME)
		wrong = get_us(&value, text);
	else if (word->value == WORD_TIME_NS)
		wrong = get_ns(&value, text);
	else if (word->value == WORD_MBIT)
		wrong = get_mbit(&value, text);
	else
		wrong = !isdigit((unsigned char)*text) || get_u32(&value, text, 0);
	if (wrong)
		refuse_value(word, text);
	addattr32(n, MAX_MSG, word->attr, value);
}

static inline void add_u64(struct nlmsghdr *n, const struct word *word, const char *text)
{
	int wrong = !isdigit((unsigned char)*text);
	__u64 value;

	if (word->value == WORD_RATE)
		wrong |= get_rate64(&value, text);
	else
		wrong |= get_u64(&value, text, 0);
	if (wrong)
		refuse_value(word, text);
	addattr64(n, MAX_MSG, word->attr, value);
}

static inline void add_value(struct nlmsghdr *n, const struct word *word, const char *text)
{
	switch (word->value) {
	case WORD_U8:
	case WORD_DSCP:
	case WORD_CHOICE:
	case WORD_ON_OFF:
		add_u8(n, word, text);
		break;
	case WORD_SIZE:
	case WORD_PROBABILITY:
	case WORD_TIME:
	case WORD_TIME_NS:
	case WORD_MBIT:
	case WORD_U32:
		add_u32(n, word, text);
		break;
	case WORD_RATE:
	case WORD_U64:
		add_u64(n, word, text);
		break;
	}
}

/* Return the row of a word and its number among those of all tables, or NULL. */
static inline const struct word *find_word(const struct word *const *tables, const char *name,
					   int *number)
{
	*number = 0;
	for (; *tables; tables++)
		for (const struct word *word = *tables; word->name; word++, (*number)++)
			if (!strcmp(word->name, name))
				return word;
	return NULL;
}

/*
 * Read all words into attributes of n. Return 0; or, after saying what is wrong
 * and the usage, -1. What tc has functions for ends the program, as in its own kinds.
 */
static inline int add_words(struct nlmsghdr *n, const struct word *const *tables,
			    const char *kind, void (*usage)(void), int argc, char **argv)
{
	bool seen[WORDS_MAX] = { false };

	for (; argc > 0; argc--, argv++) {
		int i;
		const struct word *word = find_word(tables, *argv, &i);

		if (!word) {
			if (strcmp(*argv, "help"))
				fprintf(stderr, "%s: what is \"%s\"?\n", kind, *argv);
			usage();
			return -1;
		}
		if (argc < 2)
			missarg(word->name);
		argc--;
		argv++;
		if (seen[i])
			duparg(word->name, *argv);
		seen[i] = true;
		add_value(n, word, *argv);
	}
	return 0;
}

static inline void print_choice(const struct word *word, __u8 value)
{
	const char *text = "?";	/* of a newer kernel */

	for (int i = 0; word->choices[i]; i++)
		if (i == value)
			text = word->choices[i];
	print_string(PRINT_ANY, word->name, "%s ", text);
}

/* As text in the largest unit that gives a whole number. */
static inline void print_us(const char *key, __u32 us)
{
	if (us % 1000)
		print_uint(PRINT_FP, NULL, "%uus ", us);
	else if (us % 1000000)
		print_uint(PRINT_FP, NULL, "%ums ", us / 1000);
	else
		print_uint(PRINT_FP, NULL, "%us ", us / 1000000);
	print_uint(PRINT_JSON, key, NULL, us);
}

static inline void print_ns(const char *key, __u32 ns)
{
	if (ns % 1000)
		print_uint(PRINT_FP, NULL, "%uns ", ns);
	else
		print_uint(PRINT_FP, NULL, "%uus ", ns / 1000);
	print_uint(PRINT_JSON, key, NULL, ns);
}

/* In JSON bytes/s, as tc_print_rate() has it. */
static inline void print_mbit(const char *key, __u32 mbit)
{
	print_uint(PRINT_FP, NULL, "%umbit ", mbit);
	print_u64(PRINT_JSON, key, NULL, mbit * 125000ULL);
}

static inline void print_value(const struct word *word, const struct rtattr *attr)
{
	switch (word->value) {
	case WORD_SIZE:
		print_uint(PRINT_ANY, word->name, "%ub ", rta_getattr_u32(attr));
		break;
	case WORD_PROBABILITY:
		print_float(PRINT_ANY, word->name, "%g ", rta_getattr_u32(attr) / 4294967296.0);
		break;
	case WORD_RATE:
		tc_print_rate(PRINT_ANY, word->name, "%s ", rta_getattr_u64(attr));
		break;
	case WORD_TIME:
		print_us(word->name, rta_getattr_u32(attr));
		break;
	case WORD_TIME_NS:
		print_ns(word->name, rta_getattr_u32(attr));
		break;
	case WORD_MBIT:
		print_mbit(word->name, rta_getattr_u32(attr));
		break;
	case WORD_U8:
		print_uint(PRINT_ANY, word->name, "%u ", rta_getattr_u8(attr));
		break;
	case WORD_U32:
		print_uint(PRINT_ANY, word->name, "%u ", rta_getattr_u32(attr));
		break;
	case WORD_U64:
		print_u64(PRINT_ANY, word->name, "%llu ", rta_getattr_u64(attr));
		break;
	case WORD_DSCP:
		print_dscp(word->name, rta_getattr_u8(attr));
		break;
	case WORD_CHOICE:
		print_choice(word, rta_getattr_u8(attr));
		break;
	case WORD_ON_OFF:
		print_on_off(PRINT_ANY, word->name, "%s ", rta_getattr_u8(attr));
		break;
	}
}

/* Show the words whose attributes are among tb, in the tables' order. */
static inline void print_words(const struct word *const *tables, struct rtattr *tb[])
{
	for (; *tables; tables++)
		for (const struct word *word = *tables; word->name; word++)
			if (tb[word->attr]) {
				print_string(PRINT_FP, NULL, "%s ", word->name);
				print_value(word, tb[word->attr]);
			}
}

#endif /* TC_WORDS_H */
