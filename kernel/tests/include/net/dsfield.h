/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel's own are used in a guest, on real frames; these do the same from the definitions. */
#ifndef TESTS_NET_DSFIELD_H
#define TESTS_NET_DSFIELD_H

#include <arpa/inet.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/types.h>

/* RFC 1624, equation 3: HC' = ~(~HC + ~m + m') */
static inline void ipv4_change_dsfield(struct iphdr *ip, u8 mask, u8 value)
{
	u8 to = (ip->tos & mask) | value;
	u32 sum = (u16)~ntohs(ip->check) + (u16)~(u16)ip->tos + to;

	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	ip->check = htons((u16)~sum);
	ip->tos = to;
}

static inline void ipv6_change_dsfield(struct ipv6hdr *ip, u8 mask, u8 value)
{
	u8 *byte = (u8 *)ip;
	u8 class = (u8)(byte[0] << 4 | byte[1] >> 4);

	class = (class & mask) | value;
	byte[0] = (byte[0] & 0xf0) | class >> 4;
	byte[1] = (byte[1] & 0x0f) | (u8)(class << 4);
}

#endif /* TESTS_NET_DSFIELD_H */
