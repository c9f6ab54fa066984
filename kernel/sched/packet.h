/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The IP header of an skb: read it, and rewrite its DSCP with right checksums. Works wherever
 * skb->data stands: at the network header (tc ingress) or at the link layer's (egress, qdiscs).
 */
#ifndef SCHED_PACKET_H
#define SCHED_PACKET_H

#include <linux/if_ether.h>
#include <linux/skbuff.h>
#include <net/checksum.h>
#include <net/dsfield.h>
#include <net/inet_ecn.h>

#include <net/packet_parse.h>

/*
 * Parse an skb. Headers that are not linear are copied to the stack; no more than
 * PACKET_PARSE_REACH bytes are looked at. A version that contradicts the link layer's protocol,
 * which what follows goes by, makes a packet unparseable.
 */
static inline enum packet_kind packet_read(const struct sk_buff *skb, struct packet_info *info)
{
	int offset = skb_network_offset(skb);
	u8 buffer[PACKET_PARSE_REACH];
	const u8 *data = NULL;
	u32 length, reach;

	if (likely(offset >= 0 && (u32)offset < skb->len)) {
		length = skb->len - offset;
		reach = min_t(u32, length, sizeof(buffer));
		data = skb_header_pointer(skb, offset, reach, buffer);
	}
	if (unlikely(!data) || data[0] >> 4 != (skb->protocol == htons(ETH_P_IP) ? 4 :
						skb->protocol == htons(ETH_P_IPV6) ? 6 : 0))
		goto unparseable;
	return packet_parse(info, data, reach, length);

unparseable:
	memset(info, 0, sizeof(*info));
	return PACKET_UNPARSEABLE;
}

/* The first 32 bits of an IPv6 header hold the traffic class; nothing but csum sums over them. */
static inline void packet_set_dscp_ipv6(struct sk_buff *skb, u8 dscp)
{
	struct ipv6hdr *header = ipv6_hdr(skb);
	__be32 from = *(__be32 *)header, to;

	ipv6_change_dsfield(header, INET_ECN_MASK, dscp << 2);
	to = *(__be32 *)header;
	if (skb->ip_summed == CHECKSUM_COMPLETE)
		skb->csum = csum_add(csum_sub(skb->csum, (__force __wsum)from),
				     (__force __wsum)to);
}

/*
 * Give a packet that packet_read() could parse a codepoint; ECN's two bits stay. An IPv4 header's
 * own checksum makes up for the change, so that the sum over the packet, CHECKSUM_COMPLETE's,
 * stays too. Returns false if there is no memory for a header of the packet's own: it is as it was.
 */
static inline bool packet_set_dscp(struct sk_buff *skb, const struct packet_info *info, u8 dscp)
{
	bool ipv4 = info->key.version == 4;
	size_t header = ipv4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);

	if (info->dscp == dscp)
		return true;
	if (unlikely(skb_ensure_writable(skb, skb_network_offset(skb) + header)))
		return false;
	if (ipv4)
		ipv4_change_dsfield(ip_hdr(skb), INET_ECN_MASK, dscp << 2);
	else
		packet_set_dscp_ipv6(skb, dscp);
	return true;
}

#endif /* SCHED_PACKET_H */
