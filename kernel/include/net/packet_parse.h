/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reads an IPv4 or IPv6 packet, and TCP in it, from a flat buffer.
 *
 * The buffer starts at the IP header and holds the first `reach` bytes of a packet of
 * `packet_len` bytes (link-layer padding may follow the packet and counts in both). No byte at or
 * after `data + reach` is read, whatever the packet claims; nothing is assumed about alignment.
 *
 * What the answer means:
 *
 * PACKET_UNPARSEABLE  the packet contradicts itself, or a header that is needed lies out of reach:
 *	another version than 4 or 6, lengths that exceed the packet or each other, a TCP header that
 *	is cut off. Nothing in packet_info is to be used; who marks packets leaves this one alone.
 * PACKET_IP	a good IP packet in which no TCP header can be read: another protocol (the key has
 *	ports if it is UDP), or a fragment (no ports). A first fragment does carry the TCP header,
 *	yet its length is not that of the segment, and those that follow cannot be told to belong
 *	to it without keeping identifiers: all fragments of a pair of hosts are one flow without
 *	TCP state, so that they are treated alike. An IPv6 fragment header that fragments nothing
 *	(RFC 6946) is an extension header like others.
 * PACKET_TCP	a whole TCP header, complete key, and all fields set.
 *
 * IPv6: hop-by-hop, destination, routing and authentication headers are walked,
 * PACKET_EXTENSIONS_MAX at most - a longer chain is refused, so that the work is bounded. What is
 * encrypted (ESP) or unknown is the upper protocol. A jumbogram (payload length 0 and a
 * hop-by-hop header) contradicts itself in the sense above.
 *
 * TCP options are read until one is malformed, as hosts do; the segment itself stands.
 */
#ifndef NET_PACKET_PARSE_H
#define NET_PACKET_PARSE_H

#include <linux/string.h>
#include <linux/types.h>

#include <net/flow_key.h>

#define PACKET_PARSE_REACH	256	/* bytes that a caller should offer; 120 suffice for IPv4 */
#define PACKET_EXTENSIONS_MAX	8

enum packet_kind {
	PACKET_UNPARSEABLE,
	PACKET_IP,
	PACKET_TCP,
};

#define PACKET_TCP_FIN	0x01
#define PACKET_TCP_SYN	0x02
#define PACKET_TCP_RST	0x04
#define PACKET_TCP_ACK	0x10

#define PACKET_PROTOCOL_HOP_BY_HOP	0
#define PACKET_PROTOCOL_TCP		6
#define PACKET_PROTOCOL_UDP		17
#define PACKET_PROTOCOL_ROUTING		43
#define PACKET_PROTOCOL_FRAGMENT	44
#define PACKET_PROTOCOL_AUTHENTICATION	51
#define PACKET_PROTOCOL_DESTINATION	60

struct packet_info {
	struct flow_key	key;	/* source first: the direction of this packet */
	u32	len;		/* IP length: header, extensions and payload; bytes */
	u32	seq;		/* from here on only for PACKET_TCP */
	u32	ack_seq;	/* of use only if PACKET_TCP_ACK is set */
	u32	payload;	/* bytes of TCP payload */
	u16	mss;		/* of the MSS option of a SYN; 0 = none */
	u8	flags;		/* PACKET_TCP_* and the rest of that byte */
	u8	dscp;		/* for every kind but PACKET_UNPARSEABLE */
	bool	timestamps;	/* the segment carries the timestamps option */
	bool	fragment;	/* for every kind but PACKET_UNPARSEABLE */
};

static inline u16 packet_be16(const u8 *p)
{
	return (u16)(p[0] << 8 | p[1]);
}

static inline u32 packet_be32(const u8 *p)
{
	return (u32)packet_be16(p) << 16 | packet_be16(p + 2);
}

/* Where the reading of a packet stands, and its bounds. */
struct packet_cursor {
	const u8	*data;
	u32		reach;		/* never more than len */
	u32		len;
	u32		offset;		/* of the header that is next */
	u8		protocol;	/* of that header */
};

static inline bool packet_has(const struct packet_cursor *c, u32 bytes)
{
	return bytes <= c->reach - c->offset;
}

/* The options MSS and timestamps among so many bytes; an impossible length ends the reading. */
static inline void packet_tcp_options(struct packet_info *info, const u8 *p, u32 left)
{
	const u8 end = 0, nop = 1, mss = 2, timestamps = 8;

	while (left > 0 && p[0] != end) {
		u32 size = 1;

		if (p[0] != nop) {
			if (left < 2 || p[1] < 2 || p[1] > left)
				return;
			size = p[1];
			if (p[0] == mss && size == 4 && (info->flags & PACKET_TCP_SYN))
				info->mss = packet_be16(p + 2);
			else if (p[0] == timestamps && size == 10)
				info->timestamps = true;
		}
		p += size;
		left -= size;
	}
}

static inline enum packet_kind packet_parse_tcp(struct packet_info *info,
						const struct packet_cursor *c)
{
	const u8 *tcp = c->data + c->offset;
	u32 header;

	if (!packet_has(c, 20))
		return PACKET_UNPARSEABLE;
	header = (u32)(tcp[12] >> 4) * 4;
	if (header < 20 || !packet_has(c, header))
		return PACKET_UNPARSEABLE;
	flow_key_ports(&info->key, tcp);
	info->seq = packet_be32(tcp + 4);
	info->ack_seq = packet_be32(tcp + 8);
	info->flags = tcp[13];
	info->payload = c->len - c->offset - header;
	packet_tcp_options(info, tcp + 20, header - 20);
	return PACKET_TCP;
}

static inline enum packet_kind packet_parse_udp(struct packet_info *info,
						const struct packet_cursor *c)
{
	if (!packet_has(c, 8))
		return PACKET_UNPARSEABLE;
	flow_key_ports(&info->key, c->data + c->offset);
	return PACKET_IP;
}

/* Sets the bounds once the IP header has said how long it is (its fixed part) and the packet. */
static inline bool packet_bound(struct packet_info *info, struct packet_cursor *c, u32 header,
				u32 len, u32 packet_len)
{
	if (len < header || len > packet_len)
		return false;
	info->len = len;
	c->len = len;
	if (c->reach > len)
		c->reach = len;
	c->offset = header;
	return header <= c->reach;
}

static inline bool packet_parse_ipv4(struct packet_info *info, struct packet_cursor *c,
				     u32 packet_len)
{
	const u8 *ip = c->data;

	if (c->reach < 20 || (ip[0] & 0xf) < 5)
		return false;
	if (!packet_bound(info, c, (ip[0] & 0xf) * 4u, packet_be16(ip + 2), packet_len))
		return false;
	info->dscp = ip[1] >> 2;
	info->fragment = (packet_be16(ip + 6) & 0x3fff) != 0;	/* more fragments, or an offset */
	c->protocol = ip[9];
	flow_key_ipv4(&info->key, c->protocol, ip + 12);
	return true;
}

/* Steps over the extension header at the cursor; false: it does not fit. */
static inline bool packet_step(struct packet_info *info, struct packet_cursor *c)
{
	const u8 *header = c->data + c->offset;
	u32 size = 8;

	if (!packet_has(c, 8))
		return false;
	if (c->protocol == PACKET_PROTOCOL_FRAGMENT)
		info->fragment = (packet_be16(header + 2) & 0xfff9) != 0;
	else if (c->protocol == PACKET_PROTOCOL_AUTHENTICATION)
		size = (header[1] + 2u) * 4;
	else
		size = (header[1] + 1u) * 8;
	if (!packet_has(c, size))
		return false;
	c->protocol = header[0];
	c->offset += size;
	return true;
}

static inline bool packet_is_extension(u8 protocol)
{
	return protocol == PACKET_PROTOCOL_HOP_BY_HOP || protocol == PACKET_PROTOCOL_ROUTING ||
	       protocol == PACKET_PROTOCOL_FRAGMENT || protocol == PACKET_PROTOCOL_AUTHENTICATION ||
	       protocol == PACKET_PROTOCOL_DESTINATION;
}

static inline bool packet_parse_ipv6(struct packet_info *info, struct packet_cursor *c,
				     u32 packet_len)
{
	const u8 *ip = c->data;
	int left = PACKET_EXTENSIONS_MAX;

	if (c->reach < 40 || !packet_bound(info, c, 40, 40u + packet_be16(ip + 4), packet_len))
		return false;
	info->dscp = (u8)((packet_be16(ip) >> 4 & 0xff) >> 2);
	c->protocol = ip[6];
	/* behind a fragment header only the first fragment has the chain; its protocol all share */
	while (packet_is_extension(c->protocol) && !info->fragment)
		if (left-- == 0 || !packet_step(info, c))
			return false;
	flow_key_ipv6(&info->key, c->protocol, ip + 8);
	return true;
}

/**
 * packet_parse() - reads the headers of one packet
 * @info: filled in; see enum packet_kind for what holds afterwards
 * @data: the packet from its IP header on
 * @reach: how many bytes of @data may be read
 * @packet_len: how long the packet is, @reach or more
 */
static inline enum packet_kind packet_parse(struct packet_info *info, const u8 *data, u32 reach,
					    u32 packet_len)
{
	struct packet_cursor c = { .data = data, .reach = reach };
	bool good = false;

	memset(info, 0, sizeof(*info));	/* the key of what is not IP */
	if (reach > 0 && data[0] >> 4 == 4)
		good = packet_parse_ipv4(info, &c, packet_len);
	else if (reach > 0 && data[0] >> 4 == 6)
		good = packet_parse_ipv6(info, &c, packet_len);
	if (!good)
		return PACKET_UNPARSEABLE;
	if (info->fragment)
		return PACKET_IP;
	if (c.protocol == PACKET_PROTOCOL_TCP)
		return packet_parse_tcp(info, &c);
	if (c.protocol == PACKET_PROTOCOL_UDP)
		return packet_parse_udp(info, &c);
	return PACKET_IP;
}

#endif /* NET_PACKET_PARSE_H */
