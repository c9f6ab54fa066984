// SPDX-License-Identifier: GPL-2.0
/* The qdisc delivery in tc: its words. */
#include <uapi/delivery.h>

#include "iproute2.h"
#include "words.h"

/* What a message holds of a trace; more is appended. */
#define TRACE_MAX	15000

static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";

static void delivery_usage(void)
{
	fprintf(stderr,
		"Usage: ... delivery rates TIME:RATE[,TIME:RATE...] burst BYTES [ epoch SECONDS ]\n"
		"       ... delivery trace DIGITS [ epoch SECONDS ]\n"
		"       ... delivery append DIGITS\n"
		"\n"
		"rates   rate from each time on, such as 0s:20mbit,10s:2mbit; 0bit is an outage\n"
		"burst   bytes that may leave at once after a pause\n"
		"trace   one digit for each millisecond (0 to 9, a to z for 10 to 35): how often\n"
		"        1514 bytes of frames may leave then; at most 15000 digits\n"
		"append  more of a trace, which repeats from its end\n"
		"epoch   what times count from, seconds of CLOCK_REALTIME; now if it is not given\n");
}

static void add_rates(struct nlmsghdr *n, char *text)
{
	static struct tc_delivery_rate rates[TC_DELIVERY_RATES_MAX];
	unsigned int number = 0;
	char *pair, *rate;

	while ((pair = strsep(&text, ","))) {
		struct tc_delivery_rate *one = &rates[number];
		__s64 at;
		__u64 bytes;

		if (number++ == TC_DELIVERY_RATES_MAX)
			invarg("rates has 100 at most", pair);
		rate = strchr(pair, ':');
		if (!rate)
			invarg("rates are TIME:RATE, such as 10s:2mbit", pair);
		*rate++ = 0;
		if (!isdigit((unsigned char)*pair) || get_time64(&at, pair))
			invarg("the time of a rate is such as 10s or 500ms", pair);
		if (!isdigit((unsigned char)*rate) || get_rate64(&bytes, rate))
			invarg("a rate is such as 2mbit, or 0bit for an outage", rate);
		one->at = at;
		one->rate = bytes;
	}
	addattr_l(n, MAX_MSG, TCA_DELIVERY_RATES, rates, number * sizeof(*rates));
}

static void add_trace(struct nlmsghdr *n, int attr, const char *text)
{
	static __u8 trace[TRACE_MAX];
	size_t length = strlen(text);

	if (length > TRACE_MAX)
		invarg("a message takes 15000 digits at most: append the rest", "trace");
	for (size_t i = 0; i < length; i++) {
		const char *digit = strchr(digits, text[i]);

		if (!digit)
			invarg("a trace has digits 0 to 9 and a to z", text);
		trace[i] = digit - digits;
	}
	addattr_l(n, MAX_MSG, attr, trace, length);
}

/* Decimal seconds, whose nanoseconds a double would not hold. */
static int get_epoch(__u64 *ns, const char *text)
{
	char *end = (char *)text;
	__u64 unit = 1000000000;

	*ns = isdigit((unsigned char)*text) ? strtoull(text, &end, 10) * unit : 0;
	if (end != text && *end == '.')
		for (end++; isdigit((unsigned char)*end) && unit > 1; end++)
			*ns += (*end - '0') * (unit /= 10);
	return end == text || *end || *ns > INT64_MAX;
}

static int delivery_parse(struct qdisc_util *qu, int argc, char **argv, struct nlmsghdr *n,
			  const char *dev)
{
	struct rtattr *tail = addattr_nest(n, MAX_MSG, TCA_OPTIONS | NLA_F_NESTED);
	bool seen[TCA_DELIVERY_MAX + 1] = { false };
	static const char *const names[] = {
		[TCA_DELIVERY_BURST] = "burst",	  [TCA_DELIVERY_RATES] = "rates",
		[TCA_DELIVERY_TRACE] = "trace",	  [TCA_DELIVERY_APPEND] = "append",
		[TCA_DELIVERY_EPOCH] = "epoch",
	};
	__u64 epoch;
	__u32 burst;

	(void)qu;
	(void)dev;
	for (; argc > 0; argc -= 2, argv += 2) {
		int attr = TCA_DELIVERY_BURST;

		while (attr <= TCA_DELIVERY_EPOCH && strcmp(*argv, names[attr]))
			attr++;
		if (attr > TCA_DELIVERY_EPOCH) {
			if (strcmp(*argv, "help"))
				fprintf(stderr, "delivery: what is \"%s\"?\n", *argv);
			delivery_usage();
			return -1;
		}
		if (argc < 2)
			missarg(*argv);
		if (seen[attr])
			duparg(*argv, argv[1]);
		seen[attr] = true;
		switch (attr) {
		case TCA_DELIVERY_BURST:
			if (get_bytes(&burst, argv[1]))
				invarg("burst is a size in bytes, as 2000", argv[1]);
			addattr32(n, MAX_MSG, attr, burst);
			break;
		case TCA_DELIVERY_RATES:
			add_rates(n, argv[1]);
			break;
		case TCA_DELIVERY_EPOCH:
			if (get_epoch(&epoch, argv[1]))
				invarg("epoch is a number of seconds", argv[1]);
			addattr64(n, MAX_MSG, attr, epoch);
			break;
		default:
			add_trace(n, attr, argv[1]);
		}
	}
	addattr_nest_end(n, tail);
	return 0;
}

static void print_rates(const struct rtattr *attr)
{
	struct tc_delivery_rate one;

	print_string(PRINT_FP, NULL, "%s ", "rates");
	open_json_array(PRINT_JSON, "rates");
	for (unsigned int i = 0; i < RTA_PAYLOAD(attr) / sizeof(one); i++) {
		memcpy(&one, (const char *)RTA_DATA(attr) + i * sizeof(one), sizeof(one));
		open_json_object(NULL);
		print_string(PRINT_FP, NULL, "%s", i ? "," : "");
		print_s64(PRINT_ANY, "at", "%lldns:", one.at);
		tc_print_rate(PRINT_ANY, "rate", "%s", one.rate);
		close_json_object();
	}
	close_json_array(PRINT_JSON, NULL);
	print_string(PRINT_FP, NULL, "%s", " ");
}

static int delivery_print(struct qdisc_util *qu, FILE *f, struct rtattr *options)
{
	struct rtattr *tb[TCA_DELIVERY_MAX + 1];

	(void)qu;
	(void)f;
	if (!options)
		return 0;
	parse_rtattr_nested(tb, TCA_DELIVERY_MAX, options);
	if (tb[TCA_DELIVERY_RATES])
		print_rates(tb[TCA_DELIVERY_RATES]);
	if (tb[TCA_DELIVERY_BURST])
		print_uint(PRINT_ANY, "burst", "burst %ub ",
			   rta_getattr_u32(tb[TCA_DELIVERY_BURST]));
	if (tb[TCA_DELIVERY_LENGTH])
		print_uint(PRINT_ANY, "length", "length %ums ",
			   rta_getattr_u32(tb[TCA_DELIVERY_LENGTH]));
	if (tb[TCA_DELIVERY_OPPORTUNITIES])
		print_u64(PRINT_ANY, "opportunities", "opportunities %llu ",
			  rta_getattr_u64(tb[TCA_DELIVERY_OPPORTUNITIES]));
	if (tb[TCA_DELIVERY_EPOCH])
		print_s64(PRINT_ANY, "epoch", "epoch %lldns ",
			  (__s64)rta_getattr_u64(tb[TCA_DELIVERY_EPOCH]));
	return 0;
}

struct qdisc_util delivery_qdisc_util = {
	.id = "delivery",
	.parse_qopt = delivery_parse,
	.print_qopt = delivery_print,
};
