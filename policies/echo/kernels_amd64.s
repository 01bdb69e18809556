#include "go_asm.h"
#include "textflag.h"

DATA constants<>+0(SB)/4, $1024
DATA constants<>+4(SB)/4, $16384
DATA constants<>+8(SB)/4, $274
DATA constants<>+12(SB)/4, $8
DATA constants<>+16(SB)/4, $32512
DATA constants<>+20(SB)/4, $180
DATA constants<>+24(SB)/4, $23
GLOBL constants<>(SB), RODATA|NOPTR, $28

// FLOATS turns numbers below 2^31 in Y0 into float32. It first clears the tenth bit below the
// highest, so that rounding changes none of the nine highest. It uses Y1.
#define FLOATS \
	VPSRLD    $10, Y0, Y1    \
	VPANDN    Y0, Y1, Y0     \
	VCVTDQ2PS Y0, Y0

// PAIR reads the values of the indices in Y0, 0 to 15, from a table. They go to a register. The sign of Y4
// tells which are 8 or more. It uses Y3.
#define PAIR(table, to) \
	VPERMD    (table)(SI), Y0, to     \
	VPERMD    (table+32)(SI), Y0, Y3  \
	VBLENDVPS Y4, Y3, to, to

// LOOKUP reads the values of the indices in Y0, 0 to 31, from a table. They go to Y1. It uses Y2, Y3
// and Y4.
#define LOOKUP(table) \
	VPSLLD    $28, Y0, Y4     \
	PAIR(table, Y1)           \
	PAIR(table+64, Y2)        \
	VPSLLD    $27, Y0, Y4     \
	VBLENDVPS Y4, Y2, Y1, Y1

#define WIDE(name, value) \
	DATA name<>+0(SB)/8, value  \
	DATA name<>+8(SB)/8, value  \
	DATA name<>+16(SB)/8, value \
	DATA name<>+24(SB)/8, value \
	GLOBL name<>(SB), RODATA|NOPTR, $32

WIDE(one, $0x0000000100000001)
WIDE(lower, $0x0000001F0000001F)
WIDE(upper, $0x0000003F0000003F)
WIDE(most, $0x0000FA000000FA00)
WIDE(fraction, $0x000000FF000000FF)
WIDE(whole, $0x0000010000000100)

// AROUND counts the listed blocks around 32 blocks, beginning at the given one, and adds 16 times
// their quarters. The results go to Y0. It uses Y1.
#define AROUND(first) \
	VMOVDQU first(R12), Y0          \
	VPADDB  (first+1)(R12), Y0, Y0  \
	VPADDB  (first+2)(R12), Y0, Y0  \
	VPADDB  (first+3)(R12), Y0, Y0  \
	VPADDB  (first+5)(R12), Y0, Y0  \
	VPADDB  (first+6)(R12), Y0, Y0  \
	VPADDB  (first+7)(R12), Y0, Y0  \
	VPADDB  (first+8)(R12), Y0, Y0  \
	VMOVDQU first(R11), Y1          \
	VPSLLW  $4, Y1, Y1              \ // stays within the byte
	VPADDB  Y1, Y0, Y0

// PICK reads the bytes of 32 blocks of the group, beginning at the given one, from the 64 bytes in Y3 to
// Y6, 16 in both halves of each. They become places of the table. It uses Y0,
// Y1, Y2, Y7 and Y8.
#define PICK(first) \
	VMOVDQU   (group_at+first)(AX), Y0 \
	VPSHUFB   Y0, Y3, Y1               \
	VPSHUFB   Y0, Y4, Y2               \
	VPSLLW    $3, Y0, Y7               \
	VPBLENDVB Y7, Y2, Y1, Y1           \
	VPSHUFB   Y0, Y5, Y2               \
	VPSHUFB   Y0, Y6, Y8               \
	VPBLENDVB Y7, Y8, Y2, Y2           \
	VPSLLW    $2, Y0, Y7               \
	VPBLENDVB Y7, Y2, Y1, Y1           \
	VMOVDQU   Y1, (group_place+first)(AX)

// COUNT adds the i-th of two notes to a table of those noticed. The notes begin at the given byte.
#define COUNT(i, from) \
	MOVL    (group_chances+from+4*i)(AX)(DX*4), R9                                 \
	MOVL    (from+4*i)(R10)(DX*4), BX                                              \
	ADDQ    R9, R11                                                                \
	MOVBLZX BL, R12                                                                \
	MOVBLZX BH, CX                                                                 \
	SHRL    $16, BX                                                                \
	ADDQ    R9, (calibrator_noticed+i*noticed__size+noticed_slowly)(SI)(R12*8)     \
	ADDQ    R9, (calibrator_noticed+i*noticed__size+noticed_sharps)(SI)(CX*8)      \
	MOVBLZX BL, R12                                                                \
	MOVBLZX BH, CX                                                                 \
	ADDQ    R9, (calibrator_noticed+i*noticed__size+noticed_arounds)(SI)(R12*8)    \
	INCQ    (calibrator_noticed+i*noticed__size+noticed_keys)(SI)(CX*8)

// func assessAVX2(of *group, c *calibrator, scores *[64]int32, notes *[64]note, near *[64]uint8, listed *[64 + 2*margin]uint8) (all uint64)
TEXT ·assessAVX2(SB), NOSPLIT, $0-56
	MOVQ         of+0(FP), AX
	MOVQ         c+8(FP), SI
	MOVQ         scores+16(FP), DI
	MOVQ         notes+24(FP), R10
	MOVQ         near+32(FP), R11
	MOVQ         listed+40(FP), R12
	MOVQ         group_n(AX), R8
	AROUND(32)
	VPERM2I128   $0x00, Y0, Y0, Y5
	VPERM2I128   $0x11, Y0, Y0, Y6
	AROUND(0)
	VPERM2I128   $0x00, Y0, Y0, Y3
	VPERM2I128   $0x11, Y0, Y0, Y4
	PICK(0)
	CMPQ         R8, $32
	JLE          picked
	PICK(32)

picked:
	XORQ         DX, DX
	XORQ         R11, R11 // the sum of the chances
	VPBROADCASTD constants<>+0(SB), Y7
	VPBROADCASTD constants<>+4(SB), Y8
	VPBROADCASTD constants<>+8(SB), Y9
	VPBROADCASTD constants<>+12(SB), Y10
	VPBROADCASTD constants<>+16(SB), Y11
	VPBROADCASTD constants<>+20(SB), Y12
	VPBROADCASTD constants<>+24(SB), Y15

eight:
	VPADDD    group_sharp(AX)(DX*4), Y7, Y0 // the sharp sum's bucket
	FLOATS
	VPSRLD    $22, Y0, Y0
	VPSUBD    Y9, Y0, Y0
	VPSLLD    $8, Y0, Y6
	LOOKUP(calibrator_ofSharp)
	VPADDD    group_correction(AX)(DX*4), Y1, Y5
	VPADDD    group_slow(AX)(DX*4), Y8, Y0  // the slow sum's
	FLOATS
	VPSRLD    $22, Y0, Y0
	VPSUBD    Y9, Y0, Y0
	VPSUBD    Y10, Y0, Y0
	VPOR      Y0, Y6, Y6
	LOOKUP(calibrator_ofSlow)
	VPADDD    Y1, Y5, Y5
	VPMOVZXBD group_place(AX)(DX*1), Y0     // the blocks around, and the quarter
	VPSLLD    $28, Y0, Y4
	PAIR(calibrator_ofAround, Y1)
	VPADDD    Y1, Y5, Y5
	VPSLLD    $16, Y0, Y1
	VPOR      Y1, Y6, Y6
	VPSRLD    $4, Y0, Y0
	VPERMD    calibrator_ofQuarter(SI), Y0, Y1
	VPADDD    Y1, Y5, Y5
	VPMULLD   Y12, Y5, Y5                   // the correction
	VPSRAD    $8, Y5, Y5
	VPMOVZXBD group_at(AX)(DX*1), Y0        // the key and its logarithm
	VPSRLD    $4, Y0, Y0
	VMOVDQU   group_regions(AX), Y1
	VPERMD    Y1, Y0, Y0
	VPADDD    group_key(AX)(DX*4), Y0, Y0
	VPMAXUD   one<>(SB), Y0, Y0
	FLOATS
	VPSRLD    $15, Y0, Y0
	VPSUBD    Y11, Y0, Y0
	VPADDD    Y5, Y0, Y1
	VMOVDQU   Y1, (DI)(DX*4)
	VPSRLD    $7, Y0, Y0
	VPSLLD    $28, Y0, Y4                   // the chance of its bucket
	PAIR(calibrator_chance+0, Y1)
	PAIR(calibrator_chance+64, Y2)
	PAIR(calibrator_chance+128, Y13)
	PAIR(calibrator_chance+192, Y14)
	VPSLLD    $27, Y0, Y4
	VBLENDVPS Y4, Y2, Y1, Y1
	VBLENDVPS Y4, Y14, Y13, Y13
	VPSLLD    $26, Y0, Y4
	VBLENDVPS Y4, Y13, Y1, Y3
	VPSLLD    $24, Y0, Y0
	VPOR      Y0, Y6, Y6
	VPMOVZXBD group_at(AX)(DX*1), Y0        // the sign tells whether it is kept
	VPXOR     lower<>(SB), Y0, Y1
	VPXOR     upper<>(SB), Y0, Y0
	VPBROADCASTD group_kept(AX), Y2
	VPSLLVD   Y1, Y2, Y2
	VPBROADCASTD group_kept+4(AX), Y4
	VPSLLVD   Y0, Y4, Y4
	VPOR      Y2, Y4, Y4
	VPSRLD    $31, Y4, Y0
	VPSLLD    $30, Y0, Y0
	VPOR      Y0, Y6, Y6
	VMOVDQU   Y6, (R10)(DX*4)
	VPAND     fraction<>(SB), Y5, Y0                   // the power, by a shift to the left or to the right
	VPOR      whole<>(SB), Y0, Y0
	VPSRAD    $8, Y5, Y1
	VPADDD    Y10, Y1, Y1
	VPXOR     Y2, Y2, Y2
	VPSUBD    Y1, Y2, Y2
	VPSRLVD   Y2, Y0, Y2
	VPSLLVD   Y1, Y0, Y0
	VPOR      Y0, Y2, Y0
	VPCMPGTD  Y15, Y1, Y1
	VPOR      Y0, Y1, Y0
	VPMULUDQ  Y0, Y3, Y1                    // the chance times the power
	VPSRLQ    $32, Y0, Y0
	VPSRLQ    $32, Y3, Y3
	VPMULUDQ  Y0, Y3, Y3
	VPSRLQ    $16, Y1, Y1
	VPSRLQ    $16, Y3, Y3
	VPSLLQ    $32, Y3, Y3
	VPOR      Y1, Y3, Y3
	VPMINUD   most<>(SB), Y3, Y3
	VPSRAD    $31, Y4, Y4
	VPAND     Y3, Y4, Y3
	VMOVDQU   Y3, group_chances(AX)(DX*4)
	TESTQ     DX, DX                        // it counts the eight before meanwhile
	JEQ       counted8
	COUNT(0, -32)
	COUNT(1, -32)
	COUNT(0, -24)
	COUNT(1, -24)
	COUNT(0, -16)
	COUNT(1, -16)
	COUNT(0, -8)
	COUNT(1, -8)

counted8:
	ADDQ      $8, DX
	CMPQ      DX, R8
	JLT       eight
	VZEROUPPER
	SUBQ      $8, DX
	DECQ      R8
	CMPQ      DX, R8
	JEQ       last

two:
	COUNT(0, 0)
	COUNT(1, 0)
	ADDQ      $2, DX
	CMPQ      DX, R8
	JLT       two
	JNE       counted

last:
	COUNT(0, 0)

counted:
	MOVQ      R11, all+48(FP)
	RET

// DOUBLE adds the weight of bit b to the first sums of a table, size bytes of them. It writes the results
// after them. It uses Y0, Y1 and DX.
#define DOUBLE(b, size, label) \
	VPBROADCASTQ (8*b)(SI), Y0       \
	XORQ         DX, DX              \
label:                             \
	VPADDQ       (DI)(DX*1), Y0, Y1  \
	VMOVDQU      Y1, (size)(DI)(DX*1) \
	ADDQ         $32, DX             \
	CMPQ         DX, $size           \
	JLT          label

// func fillAVX2(tables *[8][256]uint64, at *[64]uint64)
TEXT ·fillAVX2(SB), NOSPLIT, $0-16
	MOVQ tables+0(FP), DI
	MOVQ at+8(FP), SI
	MOVQ $8, CX

table:
	MOVQ (SI), AX
	MOVQ 8(SI), BX
	MOVQ AX, 8(DI)
	MOVQ BX, 16(DI)
	ADDQ AX, BX
	MOVQ BX, 24(DI)
	DOUBLE(2, 32, four)
	DOUBLE(3, 64, eights)
	DOUBLE(4, 128, sixteen)
	DOUBLE(5, 256, thirtytwo)
	DOUBLE(6, 512, sixtyfour)
	DOUBLE(7, 1024, half)
	ADDQ $2048, DI
	ADDQ $64, SI
	DECQ CX
	JNZ  table
	VZEROUPPER
	RET

WIDE(twos, $0x0000000200000002)
WIDE(threes, $0x0000000300000003)
WIDE(eights, $0x0000000800000008)
WIDE(keys, $0x001FFFFF001FFFFF)
WIDE(slows, $0x003FFFFF003FFFFF)
DATA lanes<>+0(SB)/8, $0x0000000100000000
DATA lanes<>+8(SB)/8, $0x0000000300000002
DATA lanes<>+16(SB)/8, $0x0000000500000004
DATA lanes<>+24(SB)/8, $0x0000000700000006
GLOBL lanes<>(SB), RODATA|NOPTR, $32

// TWO adds the sums of the lowest two bytes of AX, the i-th of a set and the next. The upper half of X0 is
// of no use. The adds of vectors leave the integer units to the bytes.
#define TWO(i) \
	MOVBLZX AL, R13                       \
	MOVBLZX AH, CX                        \
	VPADDQ  (2048*i)(BX)(R13*8), X0, X0   \
	VPADDQ  (2048*i+2048)(BX)(CX*8), X0, X0

// OTHER reads the sums over the events of the i-th and of the fourth block after it. It leaves their
// places in two registers.
#define OTHER(i, first, second, to) \
	MOVBLZX     (group_at+i)(AX)(DX*1), first     \
	MOVBLZX     (group_at+i+4)(AX)(DX*1), second  \
	SHLL        $4, first                         \
	SHLL        $4, second                        \
	VMOVDQU     (DI)(first*1), X0                 \
	VINSERTI128 $1, (DI)(second*1), Y0, to

// REGION adds the keys in Y2 of the blocks of a region to its sum. The regions are in Y0. It uses Y1.
#define REGION(number, sum) \
	VPCMPEQD number, Y0, Y1 \
	VPAND    Y2, Y1, Y1     \
	VPADDD   Y1, sum, sum

// func sumAVX2(of *group, past *[64]uint64, other *[64]otherSum, s *sums, forgotten uint64, regions *[4]uint32) (empty uint64)
TEXT ·sumAVX2(SB), NOSPLIT, $512-56
	MOVQ of+0(FP), R8
	MOVQ past+8(FP), SI
	MOVQ s+24(FP), BX
	MOVQ forgotten+32(FP), R10
	NOTQ R10
	MOVQ group_n(R8), R11
	XORQ DX, DX

next:
	MOVBLZX group_at(R8)(DX*1), R9
	MOVQ    (SI)(R9*8), AX
	MOVQ    AX, R14
	ANDQ    R10, R14
	MOVQ    R14, (SI)(R9*8)
	MOVBLZX AL, R13
	MOVBLZX AH, CX
	VMOVQ   (BX)(R13*8), X0
	VPADDQ  2048(BX)(CX*8), X0, X0
	SHRQ    $16, AX
	TWO(2)
	SHRQ    $16, AX
	TWO(4)
	SHRL    $16, AX
	MOVBLZX AL, R13
	SHRL    $8, AX
	VPADDQ  (2048*6)(BX)(R13*8), X0, X0
	VMOVQ   (2048*7)(BX)(AX*8), X1 // reads nothing behind the tables
	VPADDQ  X1, X0, X0
	VMOVQ   X0, packed-512(SP)(DX*8)
	INCQ    DX
	CMPQ    DX, R11
	JLT     next

	MOVQ         R8, AX
	MOVQ         other+16(FP), DI
	VMOVD        R11, X4
	VPBROADCASTD X4, Y4
	VPSUBD       lanes<>(SB), Y4, Y4  // the blocks that are left, for each lane
	VMOVDQU      keys<>(SB), Y5
	VMOVDQU      slows<>(SB), Y6
	VPXOR        Y7, Y7, Y7
	VPXOR        Y8, Y8, Y8           // the regions
	VPXOR        Y9, Y9, Y9
	VPXOR        Y10, Y10, Y10
	VPXOR        Y11, Y11, Y11
	XORQ         BX, BX               // the blocks whose slow sum is 0
	XORQ         DX, DX

some:
	OTHER(0, CX, R8, Y13)
	OTHER(1, R9, R10, Y14)
	OTHER(2, R12, R13, Y15)
	OTHER(3, R14, R15, Y3)
	VMOVDQU    X7, (DI)(CX*1)
	VMOVDQU    X7, (DI)(R8*1)
	VMOVDQU    X7, (DI)(R9*1)
	VMOVDQU    X7, (DI)(R10*1)
	VMOVDQU    X7, (DI)(R12*1)
	VMOVDQU    X7, (DI)(R13*1)
	VMOVDQU    X7, (DI)(R14*1)
	VMOVDQU    X7, (DI)(R15*1)
	VPUNPCKHDQ Y14, Y13, Y0                     // the slow sums
	VPUNPCKHDQ Y3, Y15, Y1
	VPUNPCKLDQ Y14, Y13, Y13
	VPUNPCKLDQ Y3, Y15, Y15
	VPUNPCKLQDQ Y1, Y0, Y3
	VPUNPCKHQDQ Y15, Y13, Y14                   // the sharp sums
	VPUNPCKLQDQ Y15, Y13, Y13                   // the keys
	VMOVDQU    packed-512(SP)(DX*8), Y0
	VMOVDQU    packed-480(SP)(DX*8), Y1
	VSHUFPS    $0x88, Y1, Y0, Y2                // the lower halves
	VSHUFPS    $0xDD, Y1, Y0, Y0                // the upper halves
	VPERMQ     $0xD8, Y2, Y2
	VPERMQ     $0xD8, Y0, Y0
	VPSRLD     $11, Y0, Y1
	VPSLLD     $3, Y1, Y1
	VPADDD     Y1, Y14, Y1
	VMOVDQU    Y1, group_sharp(AX)(DX*4)
	VPSLLD     $11, Y0, Y0
	VPSRLD     $21, Y2, Y1
	VPOR       Y0, Y1, Y0
	VPAND      Y6, Y0, Y0
	VPSLLD     $3, Y0, Y0
	VPADDD     Y0, Y3, Y0
	VMOVDQU    Y0, group_slow(AX)(DX*4)
	VPCMPGTD   Y7, Y4, Y1                       // the lanes in use
	VPCMPEQD   Y7, Y0, Y0
	VPAND      Y1, Y0, Y0
	VMOVMSKPS  Y0, R8
	MOVQ       DX, CX
	SHLQ       CX, R8
	ORQ        R8, BX
	VPAND      Y5, Y2, Y2
	VPSLLD     $3, Y2, Y2
	VPADDD     Y2, Y13, Y2
	VMOVDQU    Y2, group_key(AX)(DX*4)
	VPAND      Y1, Y2, Y2
	VPMOVZXBD  group_at(AX)(DX*1), Y0
	VPSRLD     $4, Y0, Y0
	REGION(Y7, Y8)
	REGION(one<>(SB), Y9)
	REGION(twos<>(SB), Y10)
	REGION(threes<>(SB), Y11)
	VPSUBD     eights<>(SB), Y4, Y4
	ADDQ       $8, DX
	CMPQ       DX, R11
	JLT        some
	VPHADDD    Y9, Y8, Y8
	VPHADDD    Y11, Y10, Y10
	VPHADDD    Y10, Y8, Y8
	VEXTRACTI128 $1, Y8, X9
	VPADDD     X9, X8, X8
	MOVQ       regions+40(FP), DI
	VMOVDQU    X8, (DI)
	VZEROUPPER
	MOVQ       BX, empty+48(FP)
	RET

// CREDIT adds the sums in X1 to those of the i-th block.
#define CREDIT(i) \
	MOVL  (4*i)(SI), AX  \
	SHLQ  $4, AX         \
	MOVOU (DI)(AX*1), X0 \
	PADDL X1, X0         \
	MOVOU X0, (DI)(AX*1)

// func addCredits(to []otherSum, c *credits, weights *otherSum)
TEXT ·addCredits(SB), NOSPLIT, $0-40
	MOVQ    to_base+0(FP), DI
	MOVQ    c+24(FP), BX
	MOVQ    weights+32(FP), CX
	MOVQ    credits_blocks(BX), DX
	MOVLQZX credits_ends(BX), SI // those without credit
	LEAQ    (DX)(SI*4), SI
	MOVOU   (CX), X2
	PXOR    X1, X1
	XORQ    CX, CX

credit:
	PADDL   X2, X1
	INCQ    CX
	MOVLQZX credits_ends(BX)(CX*4), R8
	LEAQ    -16(DX)(R8*4), R8
	JMP     test

four:
	CREDIT(0)
	CREDIT(1)
	CREDIT(2)
	CREDIT(3)
	ADDQ    $16, SI

test:
	CMPQ    SI, R8
	JLE     four
	ADDQ    $16, R8
	JMP     rest

one:
	CREDIT(0)
	ADDQ    $4, SI

rest:
	CMPQ    SI, R8
	JNE     one
	CMPQ    CX, $const_unit
	JNE     credit
	RET
