// LRU over the protocol of ../PROTOCOL.md: cc -O2 -o lru lru.c, then --policy exec:./lru.
// Blocks outside the demand are in a queue, in the order of their last use. place has the place of each
// block in the queue, or -1. An entry of the queue is stale if the place of its block is another one.
// The program serves 8 streams at once, each with its own queue. It sends answers when it has read all
// messages that have arrived. Numbers are little-endian, as on x86 and Arm.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STREAMS = 8 };

static struct lru {
	int32_t blocks, *place, *queue, head, end;
} lists[STREAMS], *now = lists;

static void push(int32_t block) {
	struct lru *l = now;
	if (l->end == 2 * l->blocks) { // at most half of the entries are not stale
		int32_t end = 0;
		for (int32_t i = l->head; i < l->end; i++) {
			int32_t x = l->queue[i];
			if (l->place[x] == i)
				l->queue[end] = x, l->place[x] = end++;
		}
		l->head = 0, l->end = end;
	}
	l->queue[l->end] = block, l->place[block] = l->end++;
}

static int32_t pop(void) {
	while (now->head < now->end) {
		int32_t i = now->head++, block = now->queue[i];
		if (now->place[block] == i) {
			now->place[block] = -1;
			return block;
		}
	}
	return -1; // kvreplay asks for no more than there are
}

static void answer(char type, const void *content, uint32_t length) {
	uint32_t total = length + 1;
	fwrite(&total, 4, 1, stdout);
	fputc(type, stdout);
	fwrite(content, 1, length, stdout);
}

static void fail(const char *why) {
	fprintf(stderr, "lru: %s\n", why);
	exit(1);
}

static void handle(int type, char *content) {
	if (type == 'H') {
		const char hello[] = "{\"protocol\": 1, \"needs\": [], \"streams\": 8}";
		answer('H', hello, sizeof hello - 1);
	} else if (type == 'S') {
		uint32_t stream;
		memcpy(&stream, content, 4);
		now = lists + stream % STREAMS;
	} else if (type == 'R') {
		const char *at = strstr(content, "\"blocks\":");
		size_t blocks = at ? strtoul(at + 9, NULL, 10) : 0;
		now->blocks = blocks, now->head = now->end = 0;
		now->place = realloc(now->place, blocks * sizeof(int32_t));
		now->queue = realloc(now->queue, 2 * blocks * sizeof(int32_t));
		if (!blocks || !now->place || !now->queue)
			fail("no memory, or no number of blocks");
	} else if (type == 'U') {
		int32_t *lengths = (int32_t *)content + 2, *list = lengths + 5;
		int32_t *hit = list + lengths[0], *left = hit + lengths[1] + lengths[2];
		for (int32_t i = 0; i < lengths[3]; i++)
			push(left[i]);
		for (int32_t i = 0; i < lengths[0]; i++)
			push(list[i]);
		for (int32_t i = 0; i < lengths[1]; i++)
			now->place[hit[i]] = -1;
	} else if (type == 'E') {
		int32_t n, *victims;
		memcpy(&n, content, 4);
		if (!(victims = malloc(4 * (size_t)n)))
			fail("no memory");
		for (int32_t i = 0; i < n; i++)
			victims[i] = pop();
		answer('V', victims, 4 * n);
		free(victims);
	}
}

int main(void) {
	size_t room = 1 << 16, have = 0; // bytes in the buffer
	char *buffer = malloc(room), *content = malloc(room);
	setvbuf(stdout, malloc(room), _IOFBF, room); // all answers in one write, which wakes kvreplay once
	while (buffer && content) {
		size_t at = 0;
		uint32_t length = 1;
		for (; have - at >= 5; at += 4 + length) {
			memcpy(&length, buffer + at, 4);
			if (have - at < 4 + (size_t)length)
				break;
			memcpy(content, buffer + at + 5, length - 1);
			content[length - 1] = 0;
			handle(buffer[at + 4], content);
		}
		memmove(buffer, buffer + at, have -= at);
		if (4 + (size_t)length > room) {
			room = 4 + (size_t)length;
			if (!(buffer = realloc(buffer, room)) || !(content = realloc(content, room)))
				break;
		}
		fflush(stdout); // all answers, before the program waits
		ssize_t n = read(0, buffer + have, room - have);
		if (n <= 0)
			return n < 0;
		have += n;
	}
	fail("no memory");
}
