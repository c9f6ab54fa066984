/* SPDX-License-Identifier: GPL-2.0 */
/* probe: what the parts of tcpf-probe share. */
#ifndef TRAFFIC_PROBE_H
#define TRAFFIC_PROBE_H

#include "instant.h"

#define SMALLEST_REQUEST	16
#define LARGEST_PACKET		9000

/* Instants are ns after the epoch. */
struct config {
	union address addr;
	int port;
	int64_t epoch;		/* ns, CLOCK_REALTIME */
	int64_t from;
	int64_t until;		/* -1: not given */
	const char *records;
	/* Datagrams. */
	int64_t every;		/* ns */
	int size;		/* bytes, IP header included */
	int tos;
	/* Exchanges. */
	int first;
	int flows;
	int64_t seed;
	int64_t request;	/* bytes */
	int64_t response;	/* bytes */
	int64_t think;		/* mean, ns; 0: none */
	bool reuse;
};

extern struct config cfg;

/* Bytes of the IP and UDP headers for the address of the command line. */
int headers(void);
void print_listening(void);

void send_datagrams(void);
void receive_datagrams(void);
void ask(void);
void answer(void);

#endif /* TRAFFIC_PROBE_H */
