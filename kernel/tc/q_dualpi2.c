// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's qdisc dualpi2 (RFC 9332) in tc, which knows it from iproute2 6.17 on: words, text
 * and JSON as of tc-dualpi2(8). max_rtt and typical_rtt, from which tc derives others, are not
 * there.
 */
#include "iproute2.h"
#include "words.h"

#ifndef TCA_DUALPI2_MAX	/* before Linux 6.17 */
enum {
	TCA_DUALPI2_UNSPEC,
	TCA_DUALPI2_LIMIT,
	TCA_DUALPI2_MEMORY_LIMIT,
	TCA_DUALPI2_TARGET,
	TCA_DUALPI2_TUPDATE,
	TCA_DUALPI2_ALPHA,
	TCA_DUALPI2_BETA,
	TCA_DUALPI2_STEP_THRESH_PKTS,
	TCA_DUALPI2_STEP_THRESH_US,
	TCA_DUALPI2_MIN_QLEN_STEP,
	TCA_DUALPI2_COUPLING,
	TCA_DUALPI2_DROP_OVERLOAD,
	TCA_DUALPI2_DROP_EARLY,
	TCA_DUALPI2_C_PROTECTION,
	TCA_DUALPI2_ECN_MASK,
	TCA_DUALPI2_SPLIT_GSO,
	TCA_DUALPI2_PAD,
	__TCA_DUALPI2_MAX
};

#define TCA_DUALPI2_MAX	(__TCA_DUALPI2_MAX - 1)

struct tc_dualpi2_xstats {
	__u32 prob;
	__u32 delay_c;
	__u32 delay_l;
	__u32 packets_in_c;
	__u32 packets_in_l;
	__u32 maxq;
	__u32 ecn_mark;
	__u32 step_marks;
	__s32 credit;
	__u32 memory_used;
	__u32 max_memory_used;
	__u32 memory_limit;
};
#endif

#define ALPHA_BETA_SCALE	256.0

enum value {
	FLAG,		/* u8, the word alone */
	NUMBER,		/* u32 */
	NUMBER_U8,
	PERCENT,	/* u8 */
	SIZE,		/* u32, bytes */
	TIME,		/* u32, us */
	TIME_OR_PACKETS,
	HERTZ,		/* u32, in 1/256 */
};

struct option {
	const char *name;
	int attr;
	enum value value;
	__u8 flag;
	const char *key;	/* in JSON */
	const char *shown;	/* a flag, in JSON */
};

static const struct option options[] = {
	{ "limit", TCA_DUALPI2_LIMIT, NUMBER, 0, "limit", NULL },
	{ "memlimit", TCA_DUALPI2_MEMORY_LIMIT, SIZE, 0, "memory-limit", NULL },
	{ "target", TCA_DUALPI2_TARGET, TIME, 0, "target", NULL },
	{ "tupdate", TCA_DUALPI2_TUPDATE, TIME, 0, "tupdate", NULL },
	{ "alpha", TCA_DUALPI2_ALPHA, HERTZ, 0, "alpha", NULL },
	{ "beta", TCA_DUALPI2_BETA, HERTZ, 0, "beta", NULL },
	{ "step_thresh", TCA_DUALPI2_STEP_THRESH_US, TIME_OR_PACKETS, 0, "step-thresh-us", NULL },
	{ "min_qlen_step", TCA_DUALPI2_MIN_QLEN_STEP, NUMBER, 0, "min-qlen-step", NULL },
	{ "coupling_factor", TCA_DUALPI2_COUPLING, NUMBER_U8, 0, "coupling", NULL },
	{ "overflow", TCA_DUALPI2_DROP_OVERLOAD, FLAG, 0, "drop-overload", "overflow" },
	{ "drop_on_overload", TCA_DUALPI2_DROP_OVERLOAD, FLAG, 1, "drop-overload", "drop" },
	{ "drop_dequeue", TCA_DUALPI2_DROP_EARLY, FLAG, 0, "drop-early", "drop-dequeue" },
	{ "drop_enqueue", TCA_DUALPI2_DROP_EARLY, FLAG, 1, "drop-early", "drop-enqueue" },
	{ "classic_protection", TCA_DUALPI2_C_PROTECTION, PERCENT, 0, "c-protection", NULL },
	{ "l4s_ect", TCA_DUALPI2_ECN_MASK, FLAG, 1, "ecn-mask", "l4s-ect" },
	{ "any_ect", TCA_DUALPI2_ECN_MASK, FLAG, 3, "ecn-mask", "any-ect" },
	{ "no_split_gso", TCA_DUALPI2_SPLIT_GSO, FLAG, 0, NULL, NULL },
	{ "split_gso", TCA_DUALPI2_SPLIT_GSO, FLAG, 1, "split-gso", NULL },
	{ NULL, 0, 0, 0, NULL, NULL },
};

static void dualpi2_usage(void)
{
	fprintf(stderr,
		"Usage: ... dualpi2 [ limit PACKETS ] [ memlimit BYTES ]\n"
		"                   [ target TIME ] [ tupdate TIME ] [ alpha HZ ] [ beta HZ ]\n"
		"                   [ step_thresh TIME|PACKETSp ] [ min_qlen_step PACKETS ]\n"
		"                   [ coupling_factor NUMBER ] [ classic_protection PERCENT ]\n"
		"                   [ drop_on_overload | overflow ] [ drop_enqueue | drop_dequeue ]\n"
		"                   [ l4s_ect | any_ect ] [ split_gso | no_split_gso ]\n");
}

static void refuse(const struct option *option, const char *text)
{
	static const char *const allowed[] = {
		[NUMBER] = "a number from 0 to 4294967295",
		[NUMBER_U8] = "a number from 0 to 255",
		[PERCENT] = "a percentage from 0% to 100%",
		[SIZE] = "a size in bytes, as 50000 or 50kb (1024 each), below 4gb",
		[TIME] = "a time with its unit, as 15ms",
		[TIME_OR_PACKETS] = "a time with its unit, as 1ms, or packets, as 5p",
		[HERTZ] = "a number of Hz, 1/256 or more, as 0.16",
	};
	char message[120];

	snprintf(message, sizeof(message), "%s is %s", option->name, allowed[option->value]);
	invarg(message, text);
}

static int get_hertz(__u32 *scaled, const char *text)
{
	char *end;
	double value = strtod(text, &end) * ALPHA_BETA_SCALE + 0.5;

	*scaled = value >= 1 && value < INT32_MAX ? (__u32)value : 0;
	return end == text || *end || !*scaled;
}

static int get_percent(__u32 *percent, const char *text)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	*percent = value;
	return !isdigit((unsigned char)*text) || value > 100 || (*end && strcmp(end, "%"));
}

static void add_option(struct nlmsghdr *n, const struct option *option, const char *text)
{
	int attr = option->attr, wrong = 0;
	__u32 value = 0;

	switch (option->value) {
	case FLAG:
		break;
	case NUMBER:
		wrong = !isdigit((unsigned char)*text) || get_u32(&value, text, 10);
		break;
	case NUMBER_U8:
		wrong = !isdigit((unsigned char)*text) || get_u32(&value, text, 10) || value > 255;
		break;
	case PERCENT:
		wrong = get_percent(&value, text);
		break;
	case SIZE:
		wrong = get_bytes(&value, text);
		break;
	case TIME_OR_PACKETS:
		wrong = get_us(&value, text);
		if (wrong && isdigit((unsigned char)*text) &&
		    !strcmp(text + strspn(text, "0123456789"), "p")) {
			unsigned long packets = strtoul(text, NULL, 10);

			value = packets;
			wrong = packets > UINT32_MAX;
			attr = TCA_DUALPI2_STEP_THRESH_PKTS;
		}
		break;
	case TIME:
		wrong = get_us(&value, text);
		break;
	case HERTZ:
		wrong = get_hertz(&value, text);
		break;
	}
	if (wrong)
		refuse(option, text);
	if (option->value == FLAG)
		addattr8(n, MAX_MSG, attr, option->flag);
	else if (option->value == NUMBER_U8 || option->value == PERCENT)
		addattr8(n, MAX_MSG, attr, value);
	else
		addattr32(n, MAX_MSG, attr, value);
}

static int dualpi2_parse(struct qdisc_util *qu, int argc, char **argv, struct nlmsghdr *n,
			 const char *dev)
{
	struct rtattr *tail = addattr_nest(n, MAX_MSG, TCA_OPTIONS | NLA_F_NESTED);
	bool seen[TCA_DUALPI2_MAX + 1] = { false };

	(void)qu;
	(void)dev;
	for (; argc > 0; argc--, argv++) {
		const struct option *option = options;

		while (option->name && strcmp(*argv, option->name))
			option++;
		if (!option->name) {
			if (strcmp(*argv, "help"))
				fprintf(stderr, "dualpi2: what is \"%s\"?\n", *argv);
			dualpi2_usage();
			return -1;
		}
		if (seen[option->attr])
			duparg(option->name, *argv);
		seen[option->attr] = true;
		if (option->value != FLAG) {
			if (argc < 2)
				missarg(option->name);
			argc--;
			argv++;
		}
		add_option(n, option, *argv);
	}
	addattr_nest_end(n, tail);
	return 0;
}

static void print_flag(const struct option *option)
{
	print_string(PRINT_FP, NULL, "%s ", option->name);
	if (option->shown)
		print_string(PRINT_JSON, option->key, NULL, option->shown);
	else if (option->key)
		print_bool(PRINT_JSON, option->key, NULL, true);
}

static void print_option(const struct option *option, const struct rtattr *attr)
{
	if (option->value == FLAG) {
		if (rta_getattr_u8(attr) == option->flag)
			print_flag(option);
		return;
	}
	print_string(PRINT_FP, NULL, "%s ", option->name);
	switch (option->value) {
	case FLAG:
		break;
	case NUMBER_U8:
		print_uint(PRINT_ANY, option->key, "%u ", rta_getattr_u8(attr));
		break;
	case PERCENT:
		print_uint(PRINT_ANY, option->key, "%u%% ", rta_getattr_u8(attr));
		break;
	case NUMBER:
		print_uint(PRINT_ANY, option->key, "%up ", rta_getattr_u32(attr));
		break;
	case SIZE:
		print_uint(PRINT_ANY, option->key, "%uB ", rta_getattr_u32(attr));
		break;
	case TIME:
	case TIME_OR_PACKETS:
		print_us(option->key, rta_getattr_u32(attr));
		break;
	case HERTZ:
		print_float(PRINT_ANY, option->key, "%g ",
			    rta_getattr_u32(attr) / ALPHA_BETA_SCALE);
		break;
	}
}

static int dualpi2_print(struct qdisc_util *qu, FILE *f, struct rtattr *attrs)
{
	struct rtattr *tb[TCA_DUALPI2_MAX + 1];

	(void)qu;
	(void)f;
	if (!attrs)
		return 0;
	parse_rtattr_nested(tb, TCA_DUALPI2_MAX, attrs);
	for (const struct option *option = options; option->name; option++)
		if (tb[option->attr])
			print_option(option, tb[option->attr]);
	if (tb[TCA_DUALPI2_STEP_THRESH_PKTS])
		print_uint(PRINT_ANY, "step-thresh-pkts", "step_thresh %up ",
			   rta_getattr_u32(tb[TCA_DUALPI2_STEP_THRESH_PKTS]));
	return 0;
}

static int dualpi2_print_xstats(struct qdisc_util *qu, FILE *f, struct rtattr *xstats)
{
	struct tc_dualpi2_xstats x;

	(void)qu;
	(void)f;
	if (!xstats)
		return 0;
	if (RTA_PAYLOAD(xstats) < sizeof(x))
		return -1;
	memcpy(&x, RTA_DATA(xstats), sizeof(x));
	print_float(PRINT_ANY, "prob", "prob %f ", x.prob / 4294967295.0);
	print_uint(PRINT_ANY, "delay-c", "delay_c %uus ", x.delay_c);
	print_uint(PRINT_ANY, "delay-l", "delay_l %uus", x.delay_l);
	print_nl();
	print_uint(PRINT_ANY, "pkts-in-c", "pkts_in_c %u ", x.packets_in_c);
	print_uint(PRINT_ANY, "pkts-in-l", "pkts_in_l %u ", x.packets_in_l);
	print_uint(PRINT_ANY, "maxq", "maxq %u", x.maxq);
	print_nl();
	print_uint(PRINT_ANY, "ecn-mark", "ecn_mark %u ", x.ecn_mark);
	print_uint(PRINT_ANY, "step-mark", "step_mark %u", x.step_marks);
	print_nl();
	print_int(PRINT_ANY, "credit", "credit %d ", x.credit);
	print_string(PRINT_FP, NULL, "(%s)", x.credit > 0 ? "C-queue" : "L-queue");
	print_nl();
	print_uint(PRINT_ANY, "memory-used", "memory_used %u ", x.memory_used);
	print_uint(PRINT_ANY, "max-memory-used", "(max %u) ", x.max_memory_used);
	print_uint(PRINT_ANY, "memory-limit", "of memory limit %u", x.memory_limit);
	print_nl();
	return 0;
}

struct qdisc_util dualpi2_qdisc_util = {
	.id = "dualpi2",
	.parse_qopt = dualpi2_parse,
	.print_qopt = dualpi2_print,
	.print_xstats = dualpi2_print_xstats,
};
