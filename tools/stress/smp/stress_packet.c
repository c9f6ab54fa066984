// SPDX-License-Identifier: GPL-2.0
/*
 * Packets that no TCP would send: any source, flags and lengths, fragments, options that lead
 * beyond their header.  A million different flows pass in a minute, none with more than a few
 * packets.
 */
#include <arpa/inet.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <string.h>

#include "stress.h"

/* Codepoints in and out of profile, and one that no marker wrote. */
static const uint8_t tos[] = { 10 << 2, 12 << 2, 0 };

/* One in three is another protocol than TCP. */
static uint8_t any_protocol(uint64_t *random)
{
	static const uint8_t others[] = { IPPROTO_UDP, IPPROTO_ICMP, IPPROTO_GRE, 253 };

	return draw(random) % 3 ? IPPROTO_TCP : others[draw(random) % sizeof(others)];
}

static size_t make_ipv4(uint8_t *packet, const struct sockaddr_in *to, uint64_t *random)
{
	struct iphdr header = {
		.version = 4,
		.ihl = 5,
		.tos = tos[draw(random) % sizeof(tos)],
		.ttl = 64,
		.id = htons(draw(random)),
		.protocol = any_protocol(random),
		.saddr = htonl(0x0a090000 | (draw(random) & 0xffff)),	/* 10.9.0.0/16 */
		.daddr = to->sin_addr.s_addr,
	};

	if (draw(random) % 8 == 0)
		header.frag_off = htons((draw(random) % 2 ? IP_MF : 0) | draw(random) % 64);
	if (draw(random) % 8 == 0) {
		header.ihl = 6;
		memset(packet + sizeof(header), IPOPT_NOP, 4);
	}
	memcpy(packet, &header, sizeof(header));
	return header.ihl * 4;
}

static size_t make_ipv6(uint8_t *packet, const struct sockaddr_in6 *to, uint64_t *random)
{
	uint8_t class = tos[draw(random) % sizeof(tos)];
	struct ip6_hdr header = {
		.ip6_flow = htonl(6U << 28 | (uint32_t)class << 20 | (draw(random) & 0xfffff)),
		.ip6_nxt = any_protocol(random),
		.ip6_hlim = 64,
		.ip6_dst = to->sin6_addr,
	};
	size_t length = sizeof(header);

	inet_pton(AF_INET6, "fd09::", &header.ip6_src);
	header.ip6_src.s6_addr32[3] = draw(random);
	if (draw(random) % 8 == 0) {
		struct ip6_frag fragment = {
			.ip6f_nxt = header.ip6_nxt,
			.ip6f_offlg = htons(draw(random) & 0x1f9),
			.ip6f_ident = draw(random),
		};

		header.ip6_nxt = IPPROTO_FRAGMENT;
		memcpy(packet + length, &fragment, sizeof(fragment));
		length += sizeof(fragment);
	}
	memcpy(packet, &header, sizeof(header));
	return length;
}

/* A TCP header, or what another protocol would take for one; some are cut short. */
static size_t make_transport(uint8_t *packet, uint64_t *random)
{
	struct tcphdr header = {
		.source = htons(draw(random)),
		.dest = htons(draw(random) % 8 ? 9 : draw(random)),
		.seq = draw(random),
		.ack_seq = draw(random),
		.doff = draw(random) % 4 ? 5 : draw(random),
		.window = htons(draw(random)),
	};
	size_t length = sizeof(header) + draw(random) % 60;

	/* SYN, FIN, RST, PSH or ACK alone, or any flags at once. */
	((uint8_t *)&header)[13] = draw(random) % 4 ? 1U << draw(random) % 5 : draw(random);
	memcpy(packet, &header, sizeof(header));
	for (size_t i = sizeof(header); i < length; i++)
		packet[i] = draw(random);
	return draw(random) % 8 ? length + draw(random) % 512 : draw(random) % length;
}

/* Fill `packet`, which has 1500 bytes; return its length. */
size_t make_packet(uint8_t *packet, const struct sockaddr_storage *to, uint64_t *random)
{
	bool v4 = to->ss_family == AF_INET;
	size_t network = v4 ? make_ipv4(packet, (const void *)to, random) :
			      make_ipv6(packet, (const void *)to, random);
	size_t length = network + make_transport(packet + network, random);

	if (!v4)
		((struct ip6_hdr *)packet)->ip6_plen = htons(length - sizeof(struct ip6_hdr));
	return length;
}
