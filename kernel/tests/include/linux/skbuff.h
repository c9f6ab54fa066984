/* SPDX-License-Identifier: GPL-2.0 */
/* As much of an skb as sched/packet.h needs: a linear part, and what lies behind it elsewhere. */
#ifndef TESTS_LINUX_SKBUFF_H
#define TESTS_LINUX_SKBUFF_H

#include <arpa/inet.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/kernel.h>
#include <string.h>

#define CHECKSUM_NONE 0
#define CHECKSUM_COMPLETE 2

struct sk_buff {
	u8 *data;
	u32 linear;		/* bytes at data */
	const u8 *rest;		/* len - linear bytes */
	u32 len;
	int network_offset;	/* from data */
	__be16 protocol;
	u8 ip_summed;
	__wsum csum;
	bool no_memory;		/* the header cannot be made writable */
};

static inline int skb_network_offset(const struct sk_buff *skb)
{
	return skb->network_offset;
}

static inline struct iphdr *ip_hdr(const struct sk_buff *skb)
{
	return (struct iphdr *)(skb->data + skb->network_offset);
}

static inline struct ipv6hdr *ipv6_hdr(const struct sk_buff *skb)
{
	return (struct ipv6hdr *)(skb->data + skb->network_offset);
}

static inline void *skb_header_pointer(const struct sk_buff *skb, int offset, int len, void *buffer)
{
	if (offset + len <= (int)skb->linear)
		return skb->data + offset;
	if (offset + len > (int)skb->len)
		return NULL;
	for (int i = 0; i < len; i++) {
		u32 at = offset + i;

		((u8 *)buffer)[i] = at < skb->linear ? skb->data[at] : skb->rest[at - skb->linear];
	}
	return buffer;
}

/* What is to be written must be linear afterwards: nothing else may be written to. */
static inline int skb_ensure_writable(struct sk_buff *skb, unsigned int bytes)
{
	return skb->no_memory || bytes > skb->linear ? -12 : 0;
}

#endif /* TESTS_LINUX_SKBUFF_H */
