/* A supervisor in two hundred lines: measures the clock for the zone's plan, starts the zone's first core, prints the zone's ring, and says
 * how the zone ended. It never touches the zone but by their page. Addresses come from the script as macros; LAYOUT_* are the page's fields.
 * AFTER_MS after the zone stands it does its ACTION: 0 nothing, 1 asks the zone to end, 2 takes the core by NMI. */
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#define APIC 0xfee00000u
#define PAGE(field) ((volatile u8 *)(ZONE_PAGE + LAYOUT_##field))
#define PAGE32(field) (*(volatile u32 *)PAGE(field))

extern u8 trampoline[], trampoline_end[];

static void out8(unsigned short port, u8 value) { __asm__ volatile("outb %0, %1" ::"a"(value), "Nd"(port)); }
static u8 in8(unsigned short port) { u8 value; __asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port)); return value; }
static u64 cycles(void) { u32 low, high; __asm__ volatile("rdtsc" : "=a"(low), "=d"(high)); return (u64)high << 32 | low; }
static u32 apic_read(u32 at) { return *(volatile u32 *)(APIC + at); }
static void apic_write(u32 at, u32 value) { *(volatile u32 *)(APIC + at) = value; }

static void put(u8 byte)
{
    while (!(in8(0x3fd) & 0x20))
        ;
    out8(0x3f8, byte);
}

static void print(const char *text)
{
    for (; *text; text++)
        put(*text);
}

static void print_hex(u32 number)
{
    print("0x");
    for (int shift = 28; shift >= 0; shift -= 4)
        put("0123456789abcdef"[number >> shift & 15]);
}

static u32 cycles_per_ms;

static void wait_us(u32 us)
{
    u64 end = cycles() + (u64)(cycles_per_ms / 1000) * us;
    while (cycles() < end)
        __asm__ volatile("pause");
}

/* Looks at the timer's count; answers the cycles between two looks at the clock around it. */
static u32 look(u64 *at, u32 *count)
{
    u64 before = cycles();
    *count = apic_read(0x390);
    *at = cycles();
    return (u32)(*at - before);
}

/* The local timer of QEMU counts at 1 GHz; divided by 16 it makes 625,000 ticks in 10 ms. The host may take the core away beside any look: the
   first try of a hundred in which both looks were short counts, or the last. */
static void measure(void)
{
    u32 passed = 0, ticks = 0, rate, rest;
    apic_write(0xf0, 0x1ff);
    apic_write(0x320, 1 << 16);
    apic_write(0x3e0, 3);
    apic_write(0x380, 0xffffffff);
    for (int tries = 0; tries < 100; tries++) {
        u64 start, end;
        u32 first, last, taken = look(&start, &first);
        while (first - apic_read(0x390) < 625000)
            ;
        taken += look(&end, &last);
        passed = (u32)(end - start);
        ticks = first - last;
        if (taken < 100000)
            break;
    }
    __asm__("divl %4" : "=a"(rate), "=d"(rest) : "a"(0), "d"(ticks), "r"(passed));
    /* 62,500 ticks are a millisecond. */
    __asm__("mull %2; divl %3" : "=a"(cycles_per_ms), "=&d"(rest) : "r"(62500), "r"(ticks), "0"(passed));
    /* 0 is a spoilt plan. */
    if (PAGE32(plan_cycles_per_ms))
        PAGE32(plan_cycles_per_ms) = cycles_per_ms;
    if (!HAS_DEADLINE)
        PAGE32(plan_timer_rate) = rate;
}

static void start_core(u32 id)
{
    for (u8 *from = trampoline, *into = (u8 *)0x8000; from < trampoline_end;)
        *into++ = *from++;
    apic_write(0x310, id << 24);
    apic_write(0x300, 0xc500);
    wait_us(1000);
    apic_write(0x310, id << 24);
    apic_write(0x300, 0x4608);
}

static u32 shown;

static void show_console(void)
{
    u32 printed = PAGE32(console_printed);
    for (; shown != printed; shown++)
        put(PAGE(console_bytes)[shown % LENGTH_console_bytes]);
}

static void say(const char *what, u32 number)
{
    print(what);
    print_hex(number);
}

static void show_end(void)
{
    say("\nsupervisor: state ", PAGE32(life_state));
    say(" code ", PAGE32(life_code));
    say(" beats ", PAGE32(life_beats));
    say(" rung ", apic_read(0x200 + BELL_VECTOR / 32 * 16) >> BELL_VECTOR % 32 & 1);
    say(" box ", PAGE32(cores_state));
    print("\nsupervisor: words ");
    for (u32 place = 0; place < PAGE32(life_words_count); place++)
        put(PAGE(life_words)[place]);
    for (u32 place = 0; place < PAGE32(life_trace_count); place++) {
        say("\nsupervisor: trace ", *(volatile u32 *)(PAGE(life_trace) + 8 * place + 4));
        say(" ", *(volatile u32 *)(PAGE(life_trace) + 8 * place));
    }
    print("\n");
}

static u64 stood, beaten, gap;
static u32 beats;

/* Notes when the zone came to stand, and the longest time without a beat from then on. */
static void watch_life(void)
{
    if (PAGE32(life_state) == 1 && !stood)
        stood = beaten = cycles();
    if (stood && PAGE32(life_beats) == beats && cycles() - beaten > gap)
        gap = cycles() - beaten;
    if (PAGE32(life_beats) != beats)
        beaten = cycles();
    beats = PAGE32(life_beats);
}

static void interrupt_zone(u32 command)
{
    apic_write(0x310, ZONE_CORE << 24);
    apic_write(0x300, command);
}

static void act(void)
{
    print("supervisor: acts\n");
    if (ACTION == 1) {
        PAGE32(life_asked_to_end) = 1;
        interrupt_zone(0x4000 | BELL_VECTOR);
    }
    if (ACTION == 2)
        interrupt_zone(0x4400);
}

static u32 in_ms(u64 span)
{
    u32 ms, rest;
    __asm__("divl %4" : "=a"(ms), "=d"(rest) : "a"((u32)span), "d"((u32)(span >> 32)), "r"(cycles_per_ms));
    return ms;
}

static void show_life(void)
{
    say("\nsupervisor: the longest pause ", in_ms(gap));
    say(" ms of ", stood ? in_ms(cycles() - stood) : 0);
    say(" ms, silent for ", in_ms(cycles() - beaten));
}

void supervise(void)
{
    measure();
    start_core(ZONE_CORE);
    u64 end = cycles() + (u64)cycles_per_ms * PATIENCE_MS, acts = ~0ull;
    while (PAGE32(life_state) < 2 && cycles() < end) {
        show_console();
        watch_life();
        if (stood && acts == ~0ull)
            acts = cycles() + (u64)cycles_per_ms * AFTER_MS;
        if (ACTION && stood && acts && cycles() > acts) {
            act();
            acts = 0;
        }
        wait_us(500);
    }
    wait_us(200000);
    show_console();
    show_life();
    show_end();
    wait_us(100000);
    print("supervisor: goes on\n");
    __asm__ volatile("outl %0, %1" ::"a"(0), "Nd"((unsigned short)0xf4));
}
