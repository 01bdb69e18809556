module example.com/kvreplay-mru

go 1.26.0

require github.com/kvreplay/kvreplay v0.0.0

replace github.com/kvreplay/kvreplay => ../..
