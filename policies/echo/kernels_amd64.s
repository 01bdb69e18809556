#include "go_asm.h"
#include "textflag.h"

DATA constants<>+0(SB)/4, $1024
DATA constants<>+4(SB)/4, $16384
DATA constants<>+8(SB)/4, $274
DATA constants<>+12(SB)/4, $8
DATA constants<>+16(SB)/4, $32512
DATA constants<>+20(SB)/4, $180
DATA constants<>+24(SB)/4, $255
DATA constants<>+28(SB)/4, $256
DATA constants<>+32(SB)/4, $23
GLOBL constants<>(SB), RODATA|NOPTR, $36

// FLOATS turns numbers below 2^31 in Y0 into float32. It first clears the tenth bit below the
// highest, so that rounding changes none of the nine highest. It uses Y1.
#define FLOATS \
	VPSRLD    $10, Y0, Y1    \
	VPANDN    Y0, Y1, Y0     \
	VCVTDQ2PS Y0, Y0

// LOOKUP reads the values of the indices in Y0, 0 to 31, from a table. They go to Y1. It uses Y2, Y3
// and Y4.
#define LOOKUP(table) \
	VPERMD    (table), Y0, Y1    \
	VPERMD    32(table), Y0, Y2  \
	VPSLLD    $28, Y0, Y4        \
	VBLENDVPS Y4, Y2, Y1, Y1     \
	VPERMD    64(table), Y0, Y2  \
	VPERMD    96(table), Y0, Y3  \
	VBLENDVPS Y4, Y3, Y2, Y2     \
	VPSLLD    $27, Y0, Y4        \
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

// func assessAVX2(of *group, c *calibrator, scores *[64]int32, notes *[64]note)
TEXT ·assessAVX2(SB), NOSPLIT, $0-32
	MOVQ         of+0(FP), AX
	MOVQ         c+8(FP), SI
	MOVQ         scores+16(FP), R9
	MOVQ         notes+24(FP), R10
	LEAQ         calibrator_ofSharp(SI), BX
	LEAQ         calibrator_ofSlow(SI), CX
	MOVQ         group_n(AX), R8
	XORQ         DX, DX
	VPBROADCASTD constants<>+0(SB), Y7
	VPBROADCASTD constants<>+4(SB), Y8
	VPBROADCASTD constants<>+8(SB), Y9
	VPBROADCASTD constants<>+12(SB), Y10
	VPBROADCASTD constants<>+16(SB), Y11
	VPBROADCASTD constants<>+20(SB), Y12
	VPBROADCASTD constants<>+24(SB), Y13
	VPBROADCASTD constants<>+28(SB), Y14
	VPBROADCASTD constants<>+32(SB), Y15

eight:
	VPADDD    group_sharp(AX)(DX*4), Y7, Y0 // the sharp sum's bucket
	FLOATS
	VPSRLD    $22, Y0, Y0
	VPSUBD    Y9, Y0, Y0
	VPSLLD    $6, Y0, Y6
	LOOKUP(BX)
	VPADDD    group_correction(AX)(DX*4), Y1, Y5
	VPADDD    group_slow(AX)(DX*4), Y8, Y0  // the slow sum's
	FLOATS
	VPSRLD    $22, Y0, Y0
	VPSUBD    Y9, Y0, Y0
	VPSUBD    Y10, Y0, Y0
	VPOR      Y0, Y6, Y6
	LOOKUP(CX)
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
	VMOVDQU   Y1, (R9)(DX*4)
	VPSRLD    $7, Y0, Y0
	VPCMPEQD  Y1, Y1, Y1                    // the chance of its bucket
	VPGATHERDD Y1, calibrator_chance(SI)(Y0*4), Y3
	VPSLLD    $18, Y0, Y0
	VPOR      Y0, Y6, Y6
	VMOVDQU   group_place(AX)(DX*4), Y0
	VPSLLD    $12, Y0, Y0
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
	VPSLLD    $24, Y0, Y0
	VPOR      Y0, Y6, Y6
	VMOVDQU   Y6, (R10)(DX*4)
	VPAND     Y13, Y5, Y0                   // the power, by a shift to the left or to the right
	VPOR      Y14, Y0, Y0
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
	ADDQ      $8, DX
	CMPQ      DX, R8
	JLT       eight
	VZEROUPPER
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

#define TABLE(i) \
	MOVBLZX i(R13), R14           \
	ADDQ    (2048*i)(BX)(R14*8), R15

// func sumGroup(of *group, past *[64]uint64, other *[64]otherSum, s *sums, bit, demanded uint64) uint32
TEXT ·sumGroup(SB), NOSPLIT, $0-52
	MOVQ of+0(FP), AX
	MOVQ past+8(FP), SI
	MOVQ other+16(FP), DI
	MOVQ s+24(FP), BX
	MOVQ bit+32(FP), R8
	NOTQ R8
	MOVQ demanded+40(FP), R9
	XORL R10, R10 // the result
	XORL R12, R12 // the sum of keys
	XORQ DX, DX
	PXOR X0, X0

next:
	MOVBLZX group_at(AX)(DX*1), CX
	LEAQ    (SI)(CX*8), R13
	MOVBLZX (R13), R14
	MOVQ    (BX)(R14*8), R15
	TABLE(1)
	TABLE(2)
	TABLE(3)
	TABLE(4)
	TABLE(5)
	TABLE(6)
	TABLE(7)
	BTQ     CX, R9
	SBBQ    R14, R14             // all ones for a member
	MOVQ    sums_current(BX), R11
	ANDQ    R14, R11
	ADDQ    R11, R15
	ANDQ    bit+32(FP), R14
	MOVQ    (R13), R11
	ANDQ    R8, R11
	ORQ     R14, R11
	MOVQ    R11, (R13)
	SHLQ    $4, CX
	ADDQ    DI, CX
	MOVL    R15, R14
	ANDL    $0x1FFFFF, R14
	MOVL    otherSum_key(CX), R11
	LEAL    (R11)(R14*8), R11
	MOVL    R11, group_key(AX)(DX*4)
	ADDL    R11, R12
	MOVL    R12, (group_before+4)(AX)(DX*4)
	MOVQ    R15, R14
	SHRQ    $21, R14
	ANDL    $0x3FFFFF, R14
	MOVL    otherSum_slow(CX), R11
	LEAL    (R11)(R14*8), R11
	MOVL    R11, group_slow(AX)(DX*4)
	DECL    R11
	ORL     R11, R10
	SHRQ    $43, R15
	MOVL    otherSum_sharp(CX), R11
	LEAL    (R11)(R15*8), R11
	MOVL    R11, group_sharp(AX)(DX*4)
	MOVOU   X0, (CX)
	INCQ    DX
	CMPQ    DX, group_n(AX)
	JLT     next
	MOVL    R10, ret+48(FP)
	RET

// func addEvents(to []otherSum, of *[16]otherSum, list []event)
TEXT ·addEvents(SB), NOSPLIT, $0-56
	MOVQ  to_base+0(FP), DI
	MOVQ  of+24(FP), BX
	MOVQ  list_base+32(FP), SI
	MOVQ  list_len+40(FP), DX
	LEAQ  (SI)(DX*4), DX
	JMP   test

event:
	MOVL  (SI), AX
	MOVL  AX, CX
	ANDL  $15, CX
	SHLL  $4, CX
	ANDL  $-16, AX
	MOVOU (DI)(AX*1), X0
	MOVOU (BX)(CX*1), X1
	PADDL X1, X0
	MOVOU X0, (DI)(AX*1)
	ADDQ  $4, SI

test:
	CMPQ  SI, DX
	JLT   event
	RET
