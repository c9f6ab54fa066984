/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the qdiscs rio and frio have in common in netlink: words that both have, read from a
 * request, refused and put into an answer.
 */
#ifndef SCHED_PRECEDENCE_H
#define SCHED_PRECEDENCE_H

#include <net/netlink.h>

#include <net/precedence.h>
#include <uapi/precedence.h>

#define PRECEDENCE_DEFAULT_AVPKT	1000
#define PRECEDENCE_DEFAULT_BANDWIDTH	1250000		/* 10 Mbit/s */
#define PRECEDENCE_DEFAULT_EWMA		9
#define PRECEDENCE_DEFAULT_IN		10		/* AF11 */

#define PRECEDENCE_POLICY						\
	[TCA_PRECEDENCE_LIMIT] = { .type = NLA_U32 },			\
	[TCA_PRECEDENCE_IN_MIN] = { .type = NLA_U32 },			\
	[TCA_PRECEDENCE_IN_MAX] = { .type = NLA_U32 },			\
	[TCA_PRECEDENCE_IN_PROBABILITY] = { .type = NLA_U32 },		\
	[TCA_PRECEDENCE_OUT_MIN] = { .type = NLA_U32 },			\
	[TCA_PRECEDENCE_OUT_MAX] = { .type = NLA_U32 },			\
	[TCA_PRECEDENCE_OUT_PROBABILITY] = { .type = NLA_U32 },		\
	[TCA_PRECEDENCE_MODE] = { .type = NLA_U8 },			\
	[TCA_PRECEDENCE_EWMA] = { .type = NLA_U8 },			\
	[TCA_PRECEDENCE_AVPKT] = { .type = NLA_U32 },			\
	[TCA_PRECEDENCE_BANDWIDTH] = { .type = NLA_U64 },		\
	[TCA_PRECEDENCE_IN] = { .type = NLA_U8 },			\
	[TCA_PRECEDENCE_SEED] = { .type = NLA_U64 }

/* What is not given keeps its value. */
static inline void precedence_read_u32(u32 *value, const struct nlattr *attr)
{
	if (attr)
		*value = nla_get_u32(attr);
}

static inline void precedence_read_u8(u8 *value, const struct nlattr *attr)
{
	if (attr)
		*value = nla_get_u8(attr);
}

static inline void precedence_read_u64(u64 *value, const struct nlattr *attr)
{
	if (attr)
		*value = nla_get_u64(attr);
}

static inline void precedence_read_curves(struct precedence_curve *in,
					  struct precedence_curve *out, struct nlattr **tb)
{
	precedence_read_u32(&in->min, tb[TCA_PRECEDENCE_IN_MIN]);
	precedence_read_u32(&in->max, tb[TCA_PRECEDENCE_IN_MAX]);
	precedence_read_u32(&in->probability, tb[TCA_PRECEDENCE_IN_PROBABILITY]);
	precedence_read_u32(&out->min, tb[TCA_PRECEDENCE_OUT_MIN]);
	precedence_read_u32(&out->max, tb[TCA_PRECEDENCE_OUT_MAX]);
	precedence_read_u32(&out->probability, tb[TCA_PRECEDENCE_OUT_PROBABILITY]);
}

/* Refuse with a message, pointing to the attribute if the request has it. */
#define PRECEDENCE_REFUSE(extack, attr, message)			\
	({								\
		NL_SET_ERR_MSG_ATTR(extack, attr, message);		\
		-EINVAL;						\
	})

/* Check the words given; those that were in force before were checked then. */
static inline int precedence_check(struct nlattr **tb, struct netlink_ext_ack *extack)
{
	const struct nlattr *limit = tb[TCA_PRECEDENCE_LIMIT];
	const struct nlattr *ewma = tb[TCA_PRECEDENCE_EWMA];
	const struct nlattr *bandwidth = tb[TCA_PRECEDENCE_BANDWIDTH];
	const struct nlattr *in = tb[TCA_PRECEDENCE_IN];

	if (limit && !nla_get_u32(limit))
		return PRECEDENCE_REFUSE(extack, limit, "limit must be above 0");
	if (ewma && nla_get_u8(ewma) > TC_PRECEDENCE_EWMA_MAX)
		return PRECEDENCE_REFUSE(extack, ewma, "ewma must be from 0 to 31");
	if (bandwidth && !nla_get_u64(bandwidth))
		return PRECEDENCE_REFUSE(extack, bandwidth, "bandwidth must be above 0");
	if (in && nla_get_u8(in) > TC_PRECEDENCE_DSCP_MAX)
		return PRECEDENCE_REFUSE(extack, in, "in must be a codepoint from 0 to 63");
	return 0;
}

static inline int precedence_check_curves(const struct precedence_curve *in,
					  const struct precedence_curve *out, struct nlattr **tb,
					  struct netlink_ext_ack *extack)
{
	if (in->min > in->max)
		return PRECEDENCE_REFUSE(extack, tb[TCA_PRECEDENCE_IN_MIN],
					 "in_min must not exceed in_max");
	if (out->min > out->max)
		return PRECEDENCE_REFUSE(extack, tb[TCA_PRECEDENCE_OUT_MIN],
					 "out_min must not exceed out_max");
	return 0;
}

/* Refuse a request to make a queue that lacks a word which has no default. */
static inline int precedence_require(struct nlattr *opt, struct netlink_ext_ack *extack)
{
	static const char *const lacks[] = {
		[TCA_PRECEDENCE_LIMIT] = "limit is required",
		[TCA_PRECEDENCE_IN_MIN] = "in_min is required",
		[TCA_PRECEDENCE_IN_MAX] = "in_max is required",
		[TCA_PRECEDENCE_IN_PROBABILITY] = "in_probability is required",
		[TCA_PRECEDENCE_OUT_MIN] = "out_min is required",
		[TCA_PRECEDENCE_OUT_MAX] = "out_max is required",
		[TCA_PRECEDENCE_OUT_PROBABILITY] = "out_probability is required",
	};
	int attr;

	for (attr = TCA_PRECEDENCE_LIMIT; attr < ARRAY_SIZE(lacks); attr++) {
		if (opt && nla_find_nested(opt, attr))
			continue;
		if (extack)
			extack->_msg = lacks[attr];
		return -EINVAL;
	}
	return 0;
}

static inline int precedence_put_curves(struct sk_buff *skb, const struct precedence_curve *in,
					const struct precedence_curve *out)
{
	return nla_put_u32(skb, TCA_PRECEDENCE_IN_MIN, in->min) ||
	       nla_put_u32(skb, TCA_PRECEDENCE_IN_MAX, in->max) ||
	       nla_put_u32(skb, TCA_PRECEDENCE_IN_PROBABILITY, in->probability) ||
	       nla_put_u32(skb, TCA_PRECEDENCE_OUT_MIN, out->min) ||
	       nla_put_u32(skb, TCA_PRECEDENCE_OUT_MAX, out->max) ||
	       nla_put_u32(skb, TCA_PRECEDENCE_OUT_PROBABILITY, out->probability);
}

static inline struct tc_precedence_count precedence_put_count(const struct precedence_count *count)
{
	return (struct tc_precedence_count){ .packets = count->packets, .bytes = count->bytes };
}

#endif /* SCHED_PRECEDENCE_H */
