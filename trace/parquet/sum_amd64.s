#include "textflag.h"

// EIGHT adds up eight differences: first in each half, by shifts of one and two places, then the
// lower half's sum to the upper half. Y1 has least and Y2 the value before the eight, in each
// place. Y5 has the index of the last place in each.
#define EIGHT(at) \
	VPADDD     at(AX), Y1, Y0    \
	VPSLLDQ    $4, Y0, Y3        \
	VPADDD     Y3, Y0, Y0        \
	VPSLLDQ    $8, Y0, Y3        \
	VPADDD     Y3, Y0, Y0        \
	VPSHUFD    $0xFF, Y0, Y3     \
	VPERM2I128 $0x08, Y3, Y3, Y3 \
	VPADDD     Y3, Y0, Y0        \
	VPADDD     Y2, Y0, Y4        \
	VMOVDQU    Y4, at(AX)        \
	VPERMD     Y0, Y5, Y0        \
	VPADDD     Y0, Y2, Y2

// func sumAVX2(dst *[groupValues]int32, least, last int32) int32
TEXT ·sumAVX2(SB), NOSPLIT, $0-20
	MOVQ         dst+0(FP), AX
	MOVL         least+8(FP), BX
	MOVL         last+12(FP), CX
	MOVL         $7, DX
	VMOVD        BX, X1
	VMOVD        CX, X2
	VMOVD        DX, X5
	VPBROADCASTD X1, Y1
	VPBROADCASTD X2, Y2
	VPBROADCASTD X5, Y5
	EIGHT(0)
	EIGHT(32)
	EIGHT(64)
	EIGHT(96)
	VMOVD        X2, BX
	MOVL         BX, ret+16(FP)
	VZEROUPPER
	RET
