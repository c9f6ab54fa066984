/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the markers, actions of tc, have in common on the command line and in what is shown: a kind
 * is tables of words (words.h) and a function for its own statistics.
 */
#ifndef TC_MARKER_H
#define TC_MARKER_H

#include <uapi/marker.h>

#include "iproute2.h"
#include "words.h"

#define MARKER_ATTRIBUTES 16	/* more than any kind has */
#define MARKER_XSTATS_MAX 256	/* bytes; no kind has more */

static const char *const marker_forward[] = { "ingress", "egress", NULL };

/* Tables of words; a kind's own comes between the two. */
static const struct word marker_first[] = {
	{ "interval", TCA_MARKER_INTERVAL, WORD_TIME, NULL,
	  "a time with its unit from 1ms to 4s, as 400ms" },
	{ "tokens", TCA_MARKER_TOKENS, WORD_SIZE, NULL, NULL },
	{ NULL, 0, 0, NULL, NULL }
};

static const struct word marker_last[] = {
	{ "in", TCA_MARKER_IN, WORD_DSCP, NULL, NULL },
	{ "out", TCA_MARKER_OUT, WORD_DSCP, NULL, NULL },
	{ "flows", TCA_MARKER_FLOWS, WORD_U32, NULL, "a number from 1 to 262144" },
	{ "forward", TCA_MARKER_FORWARD, WORD_CHOICE, marker_forward, "ingress or egress" },
	{ NULL, 0, 0, NULL, NULL }
};

#define MARKER_USAGE									\
	"          [ in DSCP ] [ out DSCP ] [ flows NUMBER ] [ forward { ingress | egress } ]\n" \
	"          [ CONTROL ] [ index INDEX ]\n"					\
	"\n"										\
	"Packets in profile get the codepoint in (af11), others out (af12).\n"		\
	"forward says where the packets that are marked are seen; the other direction is read.\n" \
	"CONTROL := pipe | pass | continue | drop | reclassify | goto chain INDEX | jump COUNT\n" \
	"To change an action, give its index and only what changes.\n"

/* What a command line is read into. */
struct marker_line {
	int argc;
	char **argv;
	struct nlmsghdr *n;
	struct tc_marker parms;
	bool control, index;
	bool seen[WORDS_MAX];
};

/* Read a word that every action has. Return false if it is none of these. */
static inline bool marker_parse_shared(struct marker_line *line)
{
	int left = line->argc, control = TC_ACT_PIPE;

	if (!strcmp(*line->argv, "index")) {
		if (line->argc < 2)
			missarg("index");
		if (line->index)
			duparg("index", line->argv[1]);
		if (get_u32(&line->parms.index, line->argv[1], 10))
			invarg("index is a number from 0 to 4294967295", line->argv[1]);
		line->index = true;
		line->argc -= 2;
		line->argv += 2;
		return true;
	}
	if (line->control)
		return false;
	parse_action_control_dflt(&line->argc, &line->argv, &control, false, control);
	line->control = line->argc != left;
	if (line->control)
		addattr32(line->n, MAX_MSG, TCA_MARKER_CONTROL, control);
	return line->control;
}

/* Read a word of the tables. Return false if it is none. */
static inline bool marker_parse_word(struct marker_line *line, const struct word *const *tables)
{
	int i;
	const struct word *word = find_word(tables, *line->argv, &i);

	if (!word)
		return false;
	if (line->argc < 2)
		missarg(word->name);
	if (line->seen[i])
		duparg(word->name, line->argv[1]);
	line->seen[i] = true;
	add_value(line->n, word, line->argv[1]);
	line->argc -= 2;
	line->argv += 2;
	return true;
}

/* Words that tc itself reads behind an action; anything else there is a mistake. */
static inline bool marker_ends(const char *word)
{
	static const char *const words[] = { "action", "cookie", "hw_stats", "no_percpu",
					     "skip_hw", "flowid", "classid", NULL };
	__u8 at;

	return !get_choice(&at, word, words);
}

static inline int marker_parse(struct action_util *au, int *argc, char ***argv, int code,
			       struct nlmsghdr *n, const struct word *const *tables,
			       void (*usage)(void))
{
	/* The first word is the kind. */
	struct marker_line line = { .argc = *argc - 1, .argv = *argv + 1, .n = n };
	struct rtattr *options = addattr_nest(n, MAX_MSG, code);

	while (line.argc > 0 && !marker_ends(*line.argv)) {
		if (!strcmp(*line.argv, "skip_sw")) {
			fprintf(stderr, "%s: skip_sw leaves it to hardware, which none can do\n",
				au->id);
			return -1;
		}
		if (marker_parse_word(&line, tables) || marker_parse_shared(&line))
			continue;
		if (strcmp(*line.argv, "help"))
			fprintf(stderr, "%s: what is \"%s\"?\n", au->id, *line.argv);
		usage();
		return -1;
	}
	addattr_l(n, MAX_MSG, TCA_MARKER_PARMS, &line.parms, sizeof(line.parms));
	addattr_nest_end(n, options);
	*argc = line.argc;
	*argv = line.argv;
	return 0;
}

static inline void marker_print_xstats(const struct rtattr *attr,
				       void (*print)(const void *xstats), size_t bytes)
{
	__u64 xstats[MARKER_XSTATS_MAX / sizeof(__u64)]; /* the attribute may not be aligned */

	if (!attr || RTA_PAYLOAD(attr) < bytes)
		return;
	memcpy(xstats, RTA_DATA(attr), bytes);
	open_json_object("xstats");
	print(xstats);
	close_json_object();
}

static inline int marker_print(struct action_util *au, FILE *f, struct rtattr *options,
			       const struct word *const *tables,
			       void (*print)(const void *xstats), size_t bytes)
{
	struct rtattr *tb[MARKER_ATTRIBUTES + 1];
	struct tc_marker parms;
	struct tcf_t times;

	print_string(PRINT_ANY, "kind", "%s ", au->id);
	if (!options)
		return 0;
	parse_rtattr_nested(tb, MARKER_ATTRIBUTES, options);
	if (!tb[TCA_MARKER_PARMS] || RTA_PAYLOAD(tb[TCA_MARKER_PARMS]) < sizeof(parms)) {
		fprintf(stderr, "%s: the kernel says nothing of the action's index\n", au->id);
		return -1;
	}
	memcpy(&parms, RTA_DATA(tb[TCA_MARKER_PARMS]), sizeof(parms));
	print_words(tables, tb);
	print_action_control(f, "", parms.action, "");
	print_nl();
	print_uint(PRINT_ANY, "index", "\t index %u", parms.index);
	print_int(PRINT_ANY, "ref", " ref %d", parms.refcnt);
	print_int(PRINT_ANY, "bind", " bind %d", parms.bindcnt);
	if (show_stats && tb[TCA_MARKER_TM]) {
		memcpy(&times, RTA_DATA(tb[TCA_MARKER_TM]), sizeof(times));
		print_tm(f, &times);
	}
	print_nl();
	if (show_stats)
		marker_print_xstats(tb[TCA_MARKER_XSTATS], print, bytes);
	return 0;
}

/* The plugin of a marker, from its list of tables `words` and name_usage and name_print_xstats. */
#define MARKER_UTIL(name)								\
static_assert(sizeof(struct tc_##name##_xstats) <= MARKER_XSTATS_MAX,			\
	      "the statistics of " #name " do not fit into what they are copied to");	\
											\
static int name##_parse(struct action_util *au, int *argc, char ***argv, int code,	\
			struct nlmsghdr *n)						\
{											\
	return marker_parse(au, argc, argv, code, n, words, name##_usage);		\
}											\
											\
static int name##_print(struct action_util *au, FILE *f, struct rtattr *options)	\
{											\
	return marker_print(au, f, options, words, name##_print_xstats,			\
			    sizeof(struct tc_##name##_xstats));				\
}											\
											\
struct action_util name##_action_util = {						\
	.id = #name,									\
	.parse_aopt = name##_parse,							\
	.print_aopt = name##_print,							\
}

#endif /* TC_MARKER_H */
