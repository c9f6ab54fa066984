// SPDX-License-Identifier: GPL-2.0
/*
 * tcpf-traffic - bulk TCP flows that cost the guest almost no system calls.
 *
 * In a User-Mode Linux guest a system call of a process costs a ptrace round
 * trip on the host while a forwarded packet costs none.  So every sender sits
 * in one sendfile() and every receiver in one recv(MSG_TRUNC | MSG_WAITALL)
 * for the whole run: the kernel moves the data, nobody copies it, and the
 * program wakes only to read TCP_INFO at the instants it was asked for.
 *
 *   tcpf-traffic send --connect ADDR --start S,S,... --sample LABEL=S,...
 *   tcpf-traffic recv --listen ADDR --flows N --sample LABEL=S,...
 *
 * Instants are seconds after --epoch, see instant.h.  The last sample ends the
 * program: connections are reset, so that no backlog outlives the run.
 * Output is one JSON object per line on stdout; see usage().
 */
#define _GNU_SOURCE
#include "instant.h"

#include <errno.h>
#include <getopt.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_FLOWS	4096
/*
 * What Linux 6.7 appended to struct tcp_info (after snd_wnd, rcv_wnd, rehash);
 * older headers end before it.  An older kernel gives fewer bytes, and the
 * fields are not printed then: none counted is not the same as no timeouts.
 */
struct rto_counts {
	uint16_t total_rto;		/* timer expiries, SYN and back-offs too */
	uint16_t total_rto_recoveries;	/* completed loss recoveries */
	uint32_t total_rto_time;	/* time spent in them, ms */
};

union tcp_info_buffer {
	struct tcp_info info;
	struct {
		char before[offsetof(struct tcp_info, tcpi_snd_wnd) + 3 * 4];
		struct rto_counts counts;
	} rto;
};

#define CHUNK		0x7ffff000	/* the most one sendfile or recv takes */
#define THREAD_STACK	(32 * 1024)

struct flow {
	int index;
	int fd;			/* -1 until the socket exists */
	int64_t start;		/* ns after the epoch (senders) */
	bool connected;
	int error;		/* errno that ended the flow early */
	pthread_t thread;
};

struct config {
	bool sending;
	struct sockaddr_in addr;
	int port;
	int source_port;	/* of flow 0; flow i uses source_port + i */
	int first;		/* number of the first flow of this process */
	int flows;
	int buffer;		/* SO_SNDBUF or SO_RCVBUF, bytes; 0: kernel's */
	int64_t epoch;		/* ns, CLOCK_REALTIME */
	char congestion[16];
	struct sample samples[MAX_SAMPLES];
	int n_samples;
};

static struct config cfg = { .port = 5001, .source_port = 20000 };
static struct flow flows[MAX_FLOWS];
static int payload_fd = -1;
static char *stacks;

const char program_name[] = "tcpf-traffic";

static void usage(FILE *to)
{
	fprintf(to,
"usage: tcpf-traffic send --connect ADDR --start S[,S...] --sample LABEL=S[,...]\n"
"       tcpf-traffic recv --listen ADDR --flows N --sample LABEL=S[,...]\n"
"\n"
"  --epoch S        CLOCK_REALTIME second that all other times count from\n"
"                   (default: now)\n"
"  --port P         port of the receiver (default 5001)\n"
"  --source-port P  flow i sends from port P + i (default 20000)\n"
"  --start S[,S...] one sender per start time\n"
"  --first N        number of this process's first flow (default 0)\n"
"  --flows N        connections a receiver waits for\n"
"  --sample L=S     read TCP_INFO of every flow at S and label it L;\n"
"                   the last sample ends the program\n"
"  --buffer BYTES   socket buffer (SO_SNDBUF / SO_RCVBUF)\n"
"  --congestion CC  TCP congestion control of the senders\n"
"\n"
"One JSON object per line: {\"event\": \"listening\"} when a receiver is ready,\n"
"then for each sample and flow the fields of struct tcp_info.\n");
}

/* ------------------------------------------------------------- options */

static void parse_starts(char *text)
{
	char *item;

	while ((item = strsep(&text, ","))) {
		if (cfg.flows == MAX_FLOWS)
			die("--start: more than %d flows", MAX_FLOWS);
		flows[cfg.flows++].start = parse_seconds(item, "--start");
	}
}

static void parse_option(int opt, char *arg)
{
	switch (opt) {
	case 'c': cfg.addr = parse_address(arg, "--connect"); break;
	case 'l': cfg.addr = parse_address(arg, "--listen"); break;
	case 'e': cfg.epoch = parse_seconds(arg, "--epoch"); break;
	case 'p': cfg.port = parse_count(arg, "--port", 65535); break;
	case 'P': cfg.source_port = parse_count(arg, "--source-port", 65535); break;
	case 'f': cfg.first = parse_count(arg, "--first", 65535); break;
	case 's': parse_starts(arg); break;
	case 'n':
		if (cfg.sending)
			die("--flows is for receivers; a sender has one --start per flow");
		cfg.flows = parse_count(arg, "--flows", MAX_FLOWS);
		break;
	case 'S': cfg.n_samples = parse_samples(arg, cfg.samples); break;
	case 'b': cfg.buffer = parse_count(arg, "--buffer", 1 << 30); break;
	case 'C': snprintf(cfg.congestion, sizeof(cfg.congestion), "%s", arg); break;
	default: usage(stderr); exit(2);
	}
}

static void parse_command_line(int argc, char **argv)
{
	static const struct option options[] = {
		{ "connect", required_argument, NULL, 'c' },
		{ "listen", required_argument, NULL, 'l' },
		{ "epoch", required_argument, NULL, 'e' },
		{ "port", required_argument, NULL, 'p' },
		{ "source-port", required_argument, NULL, 'P' },
		{ "first", required_argument, NULL, 'f' },
		{ "start", required_argument, NULL, 's' },
		{ "flows", required_argument, NULL, 'n' },
		{ "sample", required_argument, NULL, 'S' },
		{ "buffer", required_argument, NULL, 'b' },
		{ "congestion", required_argument, NULL, 'C' },
		{ NULL, 0, NULL, 0 },
	};
	int opt;

	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "help"))) {
		usage(stdout);
		exit(0);
	}
	if (argc < 2 || (strcmp(argv[1], "send") && strcmp(argv[1], "recv"))) {
		usage(stderr);
		exit(2);
	}
	cfg.sending = !strcmp(argv[1], "send");
	while ((opt = getopt_long(argc - 1, argv + 1, "", options, NULL)) != -1)
		parse_option(opt, optarg);
	if (optind < argc - 1)
		die("'%s' is not an option", argv[optind + 1]);
	if (!cfg.addr.sin_family)
		die("%s is missing", cfg.sending ? "--connect" : "--listen");
	if (!cfg.flows)
		die("%s is missing", cfg.sending ? "--start" : "--flows");
	if (!cfg.n_samples)
		die("--sample is missing: without one the program would never end");
	if (cfg.source_port + cfg.first + cfg.flows > 65536)
		die("--source-port %d leaves no ports for %d flows from number %d",
		    cfg.source_port, cfg.flows, cfg.first);
	cfg.source_port += cfg.first;
}

/* ------------------------------------------------------------- sockets */

static int tcp_socket(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		die("socket: %s", strerror(errno));
	set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR");
	if (cfg.buffer)
		set_buffer(fd, cfg.sending, cfg.buffer);
	if (*cfg.congestion &&
	    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, cfg.congestion,
		       (socklen_t)strlen(cfg.congestion)))
		die("congestion control '%s': %s", cfg.congestion, strerror(errno));
	return fd;
}

static void *send_flow(void *arg)
{
	struct flow *f = arg;
	struct sockaddr_in to = cfg.addr;
	off_t offset;

	to.sin_port = htons((uint16_t)cfg.port);
	sleep_until(cfg.epoch + f->start);
	if (connect(f->fd, (struct sockaddr *)&to, sizeof(to))) {
		f->error = errno;
		return NULL;
	}
	f->connected = true;
	for (;;) {
		offset = 0;
		if (sendfile(f->fd, payload_fd, &offset, CHUNK) < 0)
			break;
	}
	f->error = errno;
	return NULL;
}

static void *receive_flow(void *arg)
{
	struct flow *f = arg;
	ssize_t n;

	do {
		n = recv(f->fd, NULL, CHUNK, MSG_TRUNC | MSG_WAITALL);
	} while (n > 0);
	f->error = n < 0 ? errno : 0;
	return NULL;
}

/* All stacks at once, mapped beforehand: threads by the hundred fault on nothing. */
static void make_stacks(void)
{
	stacks = mmap(NULL, (size_t)cfg.flows * THREAD_STACK, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (stacks == MAP_FAILED)
		die("stacks of %d threads: %s", cfg.flows, strerror(errno));
}

static void spawn(struct flow *f, void *(*body)(void *))
{
	start_thread(&f->thread, stacks + (size_t)f->index * THREAD_STACK, THREAD_STACK,
		     body, f, f->index);
}

static void start_senders(void)
{
	payload_fd = memfd_create("payload", MFD_CLOEXEC);
	if (payload_fd < 0 || ftruncate(payload_fd, CHUNK))
		die("payload: %s", strerror(errno));
	for (int i = 0; i < cfg.flows; i++) {
		struct sockaddr_in from = {
			.sin_family = AF_INET,
			.sin_port = htons((uint16_t)(cfg.source_port + i)),
		};

		flows[i].fd = tcp_socket();
		if (bind(flows[i].fd, (struct sockaddr *)&from, sizeof(from)))
			die("bind port %d: %s", cfg.source_port + i, strerror(errno));
		spawn(&flows[i], send_flow);
	}
}

static void *accept_flows(void *arg)
{
	int listener = *(int *)arg;

	for (int accepted = 0; accepted < cfg.flows; accepted++) {
		struct sockaddr_in peer;
		socklen_t len = sizeof(peer);
		int fd = accept(listener, (struct sockaddr *)&peer, &len);
		int i = ntohs(peer.sin_port) - cfg.source_port;

		if (fd < 0)
			die("accept: %s", strerror(errno));
		if (i < 0 || i >= cfg.flows || flows[i].connected)
			die("unexpected connection from port %d",
			    ntohs(peer.sin_port));
		flows[i].fd = fd;
		flows[i].connected = true;
		spawn(&flows[i], receive_flow);
	}
	return NULL;
}

static void start_receiver(void)
{
	static pthread_t acceptor;
	static int listener;
	struct sockaddr_in at = cfg.addr;

	at.sin_port = htons((uint16_t)cfg.port);
	listener = tcp_socket();
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) ||
	    listen(listener, cfg.flows))
		die("listen on port %d: %s", cfg.port, strerror(errno));
	if (pthread_create(&acceptor, NULL, accept_flows, &listener))
		die("cannot start the accepting thread");
	printf("{\"event\":\"listening\",\"port\":%d,\"flows\":%d}\n", cfg.port,
	       cfg.flows);
	fflush(stdout);
}

/* ------------------------------------------------------------- samples */

/* Where the kernel gave none, @rto is NULL. */
static void print_info(const struct tcp_info *t, const struct rto_counts *rto)
{
	printf(",\"tcp_state\":%u,\"options\":%u,\"snd_mss\":%u,\"rcv_mss\":%u",
	       t->tcpi_state, t->tcpi_options, t->tcpi_snd_mss, t->tcpi_rcv_mss);
	printf(",\"rto_us\":%u,\"rtt_us\":%u,\"rttvar_us\":%u,\"snd_cwnd\":%u,"
	       "\"snd_ssthresh\":%u", t->tcpi_rto, t->tcpi_rtt, t->tcpi_rttvar,
	       t->tcpi_snd_cwnd, t->tcpi_snd_ssthresh);
	printf(",\"bytes_sent\":%llu,\"bytes_acked\":%llu,\"bytes_received\":%llu,"
	       "\"bytes_retrans\":%llu", t->tcpi_bytes_sent, t->tcpi_bytes_acked,
	       t->tcpi_bytes_received, t->tcpi_bytes_retrans);
	printf(",\"segs_out\":%u,\"segs_in\":%u,\"data_segs_out\":%u,"
	       "\"data_segs_in\":%u", t->tcpi_segs_out, t->tcpi_segs_in,
	       t->tcpi_data_segs_out, t->tcpi_data_segs_in);
	printf(",\"total_retrans\":%u", t->tcpi_total_retrans);
	if (rto)
		printf(",\"total_rto\":%u,\"total_rto_recoveries\":%u,"
		       "\"total_rto_time_ms\":%u", rto->total_rto,
		       rto->total_rto_recoveries, rto->total_rto_time);
	printf(",\"reordering\":%u,\"dsack_dups\":%u,\"reord_seen\":%u,"
	       "\"rcv_ooopack\":%u", t->tcpi_reordering, t->tcpi_dsack_dups,
	       t->tcpi_reord_seen, t->tcpi_rcv_ooopack);
}

static void take_sample(const struct sample *s)
{
	for (int i = 0; i < cfg.flows; i++) {
		struct flow *f = &flows[i];
		union tcp_info_buffer buffer;
		socklen_t len = sizeof(buffer);
		int64_t at;	/* each flow's own: in real time reading a hundred takes a while */
		bool read;

		memset(&buffer, 0, sizeof(buffer));
		at = now() - cfg.epoch;
		read = f->fd >= 0 &&
		       !getsockopt(f->fd, IPPROTO_TCP, TCP_INFO, &buffer, &len);
		printf("{\"event\":\"sample\",\"sample\":\"%s\",\"epoch_ns\":%lld,"
		       "\"time_ns\":%lld,\"flow\":%d,\"source_port\":%d,"
		       "\"connected\":%s", s->label, (long long)cfg.epoch,
		       (long long)at, cfg.first + i, cfg.source_port + i,
		       f->connected ? "true" : "false");
		if (read)
			print_info(&buffer.info, len < sizeof(buffer.rto) ?
				   NULL : &buffer.rto.counts);
		if (f->error)
			printf(",\"error\":\"%s\"", strerror(f->error));
		printf("}\n");
	}
	fflush(stdout);
}

static void reset_connections(void)
{
	for (int i = 0; i < cfg.flows; i++)
		if (flows[i].fd >= 0)
			reset_on_close(flows[i].fd);
}

int main(int argc, char **argv)
{
	cfg.epoch = now();
	for (int i = 0; i < MAX_FLOWS; i++)
		flows[i] = (struct flow){ .index = i, .fd = -1 };
	parse_command_line(argc, argv);
	/* By clocks of their own the receivers may end first: an error, no signal. */
	signal(SIGPIPE, SIG_IGN);
	setvbuf(stdout, NULL, _IOFBF, OUTPUT_BUFFER);
	raise_file_limit(cfg.flows);
	make_stacks();
	if (cfg.sending)
		start_senders();
	else
		start_receiver();
	for (int i = 0; i < cfg.n_samples; i++) {
		sleep_until(cfg.epoch + cfg.samples[i].at);
		take_sample(&cfg.samples[i]);
	}
	/*
	 * Both ends: a FIN whose answer is lost would be sent again and again
	 * long after the queues have drained.
	 */
	reset_connections();
	/* The threads are in the kernel; leaving the process ends them. */
	_exit(0);
}
