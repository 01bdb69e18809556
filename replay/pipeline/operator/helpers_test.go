package operator

import "github.com/kvreplay/kvreplay/replay/pipeline/pipelinetest"

var near, parts = pipelinetest.Near, pipelinetest.Parts
