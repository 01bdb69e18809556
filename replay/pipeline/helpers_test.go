package pipeline

import "github.com/kvreplay/kvreplay/replay/pipeline/pipelinetest"

var (
	near       = pipelinetest.Near
	scheduleOf = pipelinetest.Schedule
	library    = pipelinetest.Library
	machine    = pipelinetest.Machine
	parts      = pipelinetest.Parts
)
