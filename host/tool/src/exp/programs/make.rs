//! gcc and make: the stb libraries built to a program that writes a picture and reads it back.

use super::program::Program;

/// Sources compiled by two jobs.
pub const MAKE: Program = Program {
    packages: &["gcc", "make", "libc6-dev", "libstb-dev"],
    size_mib: 768,
    files: &[("/root/Makefile", MAKEFILE), ("/root/main.c", MAIN)],
    script: r#"
begins
make -s -j2 > /tmp/make.log 2>&1 || failed "make: $(tail -5 /tmp/make.log)"
worked 7
same "right 65536" "$(./picture /tmp/picture.png)" picture
same PNG "$(head -c 4 /tmp/picture.png | tail -c 3)" "picture's kind"
same "" "$(make -s -j2 2>&1)" "nothing is left to do"
"#,
    ..Program::new("gcc-make", "files")
};

const MAKEFILE: &str = "
PARTS = image:IMAGE image_write:IMAGE_WRITE image_resize:IMAGE_RESIZE truetype:TRUETYPE rect_pack:RECT_PACK perlin:PERLIN
NAMES = $(foreach part,$(PARTS),$(firstword $(subst :, ,$(part))))
CC = gcc
CFLAGS = -O2 -I/usr/include/stb
picture: main.o $(NAMES:%=%.o)
\t$(CC) -o $@ $^ -lm
MACRO = $(word 2,$(subst :, ,$(filter $*:%,$(PARTS))))
$(NAMES:%=%.c): %.c:
\tprintf '#define STB_%s_IMPLEMENTATION\\n#include \"stb_%s.h\"\\n' $(MACRO) $* > $@
";

const MAIN: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <stb_image.h>
#include <stb_image_write.h>

int main(int count, char **words)
{
    static unsigned char made[256][256];
    for (int y = 0; y < 256; y++)
        for (int x = 0; x < 256; x++)
            made[y][x] = (unsigned char)(x * y >> 3);
    if (count < 2 || !stbi_write_png(words[1], 256, 256, 1, made, 256))
        return 1;
    int width, height, parts, right = 0;
    unsigned char *seen = stbi_load(words[1], &width, &height, &parts, 1);
    if (!seen || width != 256 || height != 256)
        return 2;
    for (int i = 0; i < 65536; i++)
        right += seen[i] == made[i / 256][i % 256];
    printf("right %d\n", right);
    return 0;
}
"#;
