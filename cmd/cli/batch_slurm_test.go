package cli_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// slurm is a Slurm of three nodes with one core each, on the loopback interface. All of its files are
// in one folder.
type slurm struct {
	t       *testing.T
	dir     string
	env     []string
	daemons map[string]*exec.Cmd // by name
}

// startSlurm starts munged, slurmctld and three slurmd. The test stops them.
func startSlurm(t *testing.T) *slurm {
	t.Helper()
	for _, program := range []string{"munged", "slurmctld", "slurmd", "sbatch"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("KVREPLAY_REQUIRE_SLURM") == "1" {
				t.Fatalf("KVREPLAY_REQUIRE_SLURM=1, but: %v", err)
			}
			t.Skipf("no test on Slurm without slurmctld, slurmd, slurm-client and munge (KVREPLAY_REQUIRE_SLURM=1 makes this an error): %v", err)
		}
	}
	dir, err := os.MkdirTemp("", "kvslurm") // short, because paths of sockets have at most 107 bytes
	fatal.If(t, err)
	s := &slurm{t: t, dir: dir, daemons: map[string]*exec.Cmd{}}
	t.Cleanup(s.stop)
	fatal.If(t, os.Chmod(dir, 0o755))
	for _, folder := range []string{"state", "spool", "log", "run"} {
		fatal.If(t, os.Mkdir(filepath.Join(dir, folder), 0o755))
	}
	key := make([]byte, 1024)
	_, _ = rand.Read(key) // never fails
	fatal.If(t, os.WriteFile(filepath.Join(dir, "munge.key"), key, 0o400))
	s.configure()
	s.gate()
	s.env = append(os.Environ(), "SLURM_CONF="+filepath.Join(dir, "slurm.conf"), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	s.daemon("munged", "munged", "--foreground", "--force", "--key-file="+dir+"/munge.key", "--socket="+dir+"/run/munge.sock",
		"--pid-file="+dir+"/run/munged.pid", "--log-file="+dir+"/log/munged.log", "--seed-file="+dir+"/run/munged.seed")
	s.until("munged answers", func() bool { _, err := os.Stat(dir + "/run/munge.sock"); return err == nil })
	s.daemon("slurmctld", "slurmctld", "-D", "-i", "-f", dir+"/slurm.conf")
	for _, node := range []string{"n1", "n2", "n3"} {
		s.node(node)
	}
	s.until("three nodes are idle", func() bool { return s.try("sinfo", "-h", "-t", "idle", "-o", "%D") == "3" })
	return s
}

// configure writes slurm.conf. Nothing in it needs root, systemd, cgroups or a database.
func (s *slurm) configure() {
	host, err := exec.Command("hostname", "-s").Output()
	if err != nil {
		s.t.Fatal(err)
	}
	user, err := exec.Command("id", "-un").Output()
	if err != nil {
		s.t.Fatal(err)
	}
	h, u, ports := strings.TrimSpace(string(host)), strings.TrimSpace(string(user)), freePorts(s.t, 4)
	conf := fmt.Sprintf(`ClusterName=loop
SlurmctldHost=%[2]s(127.0.0.1)
SlurmctldPort=%[4]d
SlurmUser=%[3]s
SlurmdUser=%[3]s
AuthType=auth/munge
AuthInfo=socket=%[1]s/run/munge.sock
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation=%[1]s/state
SlurmdSpoolDir=%[1]s/spool/%%n
SlurmctldPidFile=%[1]s/run/slurmctld.pid
SlurmdPidFile=%[1]s/run/slurmd.%%n.pid
SlurmctldLogFile=%[1]s/log/slurmctld.log
SlurmdLogFile=%[1]s/log/slurmd.%%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SlurmdTimeout=300
InactiveLimit=0
KillWait=5
MinJobAge=600
JobRequeue=1
MailProg=/bin/true
PartitionName=all Nodes=n1,n2,n3 Default=YES MaxTime=INFINITE State=UP
`, s.dir, h, u, ports[3])
	for i, node := range []string{"n1", "n2", "n3"} {
		conf += fmt.Sprintf("NodeName=%s NodeHostname=%s NodeAddr=127.0.0.1 Port=%d CPUs=1 RealMemory=1000 State=UNKNOWN\n", node, h, ports[i])
	}
	write(s.t, filepath.Join(s.dir, "slurm.conf"), conf)
}

// freePorts returns different ports.
func freePorts(t *testing.T, n int) (ports []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		fatal.If(t, err)
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// daemon starts a daemon in the foreground.
func (s *slurm) daemon(name string, words ...string) {
	s.t.Helper()
	cmd := exec.Command(words[0], words[1:]...)
	if strings.HasPrefix(name, "slurm") {
		cmd.Env = s.env
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.daemons[name] = cmd
}

func (s *slurm) node(name string) {
	s.daemon("slurmd "+name, "slurmd", "-D", "-f", s.dir+"/slurm.conf", "-N", name)
}

// stop cancels all jobs, stops the daemons and removes the folder.
func (s *slurm) stop() {
	if s.t.Failed() {
		log, _ := os.ReadFile(s.dir + "/log/slurmctld.log")
		s.t.Logf("slurmctld.log:\n%s", log[max(0, len(log)-4000):])
	}
	s.try("scancel", "--state=PENDING,RUNNING,SUSPENDED", "--partition=all")
	for range 50 {
		if len(s.tasks()) == 0 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	for _, cmd := range s.daemons {
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}
	for _, cmd := range s.daemons {
		kill := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		kill.Stop()
	}
	for range 20 { // a step daemon may still write
		if os.RemoveAll(s.dir) == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// try runs a command of Slurm and returns its output, or "" if it fails.
func (s *slurm) try(words ...string) string {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Env, cmd.Dir = s.env, s.dir
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// until waits for a condition.
func (s *slurm) until(what string, ok func() bool) {
	s.t.Helper()
	for began := time.Now(); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > 5*time.Minute {
			s.t.Fatalf("waited for 5 minutes until %s\n%s", what, s.try("squeue"))
		}
	}
}

// slurmTask is the running process of an array task.
type slurmTask struct {
	pid, parent int
	node, index string
}

// tasks lists the processes that kvreplay's tasks run in.
func (s *slurm) tasks() (all []slurmTask) {
	entries, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range entries {
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text, []byte("SLURM_CONF="+s.dir+"/")) {
			continue
		}
		value := func(name string) string {
			for _, v := range bytes.Split(text, []byte{0}) {
				if v, ok := bytes.CutPrefix(v, []byte(name+"=")); ok {
					return string(v)
				}
			}
			return ""
		}
		stat, err := os.ReadFile(filepath.Join(filepath.Dir(path), "stat"))
		comm, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		if err != nil || len(fields) < 2 || fields[0] == "Z" || value("SLURM_ARRAY_TASK_ID") == "" || !strings.Contains(comm, "(kvreplay") {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		parent, _ := strconv.Atoi(fields[1])
		all = append(all, slurmTask{pid, parent, value("SLURMD_NODENAME"), value("SLURM_ARRAY_TASK_ID")})
	}
	return all
}

// gate writes the kvreplay of tasks. It waits until the test opens the gate for all tasks, or gives the node a
// turn, and becomes the program.
func (s *slurm) gate() {
	s.t.Helper()
	fatal.If(s.t, os.Mkdir(filepath.Join(s.dir, "bin"), 0o755))
	script := fmt.Sprintf(`#!/bin/sh
while ! [ -e %[1]s/open ] && ! mv "%[1]s/turn.$SLURMD_NODENAME" "%[1]s/taken.$SLURMD_NODENAME" 2>/dev/null; do sleep 0.1; done
exec %[2]s "$@"
`, s.dir, program(s.t))
	fatal.If(s.t, os.WriteFile(filepath.Join(s.dir, "bin", "kvreplay"), []byte(script), 0o755))
}

// open lets all tasks run.
func (s *slurm) open() { write(s.t, filepath.Join(s.dir, "open"), "") }

// turns is the number of tasks of a node that may end before one of them is suspended.
const turns = 3

// on suspends a task on a node, which has no pack in the folder yet, and returns it. It gives a waiting task
// a turn. After some tasks that ended too early it suspends one before it becomes kvreplay, so the tasks
// of a slow machine suffice too.
func (s *slurm) on(node, packs string) slurmTask {
	s.t.Helper()
	var found slurmTask
	given := 0
	s.until("a task runs on "+node, func() bool {
		for _, task := range s.tasks() {
			if task.node != node {
				continue
			}
			if given < turns && s.waits(task) {
				given++
				write(s.t, filepath.Join(s.dir, "turn."+node), "")
				for range 10_000 { // the outer loop gives up later
					if !s.waits(task) {
						break
					}
					time.Sleep(time.Millisecond)
				}
			}
			if syscall.Kill(task.pid, syscall.SIGSTOP) != nil {
				continue
			}
			index, _ := strconv.Atoi(task.index)
			if slices.Contains(s.tasks(), task) && !exists(filepath.Join(packs, fmt.Sprintf("shard-%06d.jsonl.zst", index))) {
				found = task
				return true
			}
			_ = syscall.Kill(task.pid, syscall.SIGCONT)
		}
		return false
	})
	return found
}

// waits reports whether a task runs and is not yet kvreplay.
func (s *slurm) waits(task slurmTask) bool {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", task.pid))
	return err == nil && filepath.Base(exe) != filepath.Base(program(s.t))
}

// submit runs the sbatch lines of an output.
func (s *slurm) submit(output string) (jobs []string) {
	s.t.Helper()
	for line := range strings.Lines(output) {
		if !strings.HasPrefix(strings.TrimSpace(line), "sbatch ") {
			continue
		}
		job := s.try("sh", "-c", strings.Replace(strings.TrimSpace(line), "sbatch ", "sbatch --parsable ", 1))
		if job == "" {
			s.t.Fatalf("not submitted: %s", line)
		}
		jobs = append(jobs, job)
	}
	if len(jobs) == 0 {
		s.t.Fatalf("no line to submit in\n%s", output)
	}
	return jobs
}

// finished waits until no job is left. Slurm starts a requeued task after two minutes, or at once if the
// test sets its start time.
func (s *slurm) finished() {
	s.t.Helper()
	s.until("all tasks have ended", func() bool {
		for _, id := range strings.Fields(s.try("squeue", "-h", "-t", "PD", "-o", "%i")) {
			if !strings.Contains(id, "[") {
				s.try("scontrol", "update", "jobid="+id, "StartTime=now")
			}
		}
		return s.try("sh", "-c", "squeue -h | wc -l") == "0"
	})
}

// A job array on a real Slurm: a process is killed, a task is requeued, and a node is lost. The
// line that status prints submits what is missing. The merge has the bytes of one machine.
func TestBatchOnSlurm(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a Slurm")
	}
	s, began := startSlurm(t), time.Now()
	traces := []string{shardTrace(t, "a.parquet", 1), shardTrace(t, "b.parquet", 100)}
	args := append(traces, "--policy", "lru,lfu,fifo,opt,arc,sieve,window:2", "--capacity", "1.25x,1.5x,2x,3x", "--per", "layer")
	one := filepath.Join(t.TempDir(), "one")
	must(t, append([]string{"replay", "--out", one}, args...)...)
	path := filepath.Join(s.dir, "b.batch")
	jobs := s.submit(must(t, append([]string{"batch", "plan", "-o", path, "--rate", "3ns", "--hours", "0.00008"}, args...)...))

	killed, lost, requeued := s.on("n1", path+".packs"), s.on("n2", path+".packs"), s.on("n3", path+".packs")
	s.open()
	_ = syscall.Kill(killed.pid, syscall.SIGKILL)
	_ = s.daemons["slurmd n2"].Process.Kill()
	_ = syscall.Kill(lost.parent, syscall.SIGKILL)
	_ = syscall.Kill(lost.pid, syscall.SIGKILL)
	_ = s.daemons["slurmd n2"].Wait()
	s.try("scontrol", "update", "nodename=n2", "state=down", "reason=lost")
	_ = syscall.Kill(requeued.pid, syscall.SIGCONT)
	s.try("scontrol", "requeue", jobs[0]+"_"+requeued.index)
	s.node("n2")
	s.until("n2 is back", func() bool {
		s.try("scontrol", "update", "nodename=n2", "state=resume")
		return !strings.Contains(s.try("sinfo", "-h", "-n", "n2", "-o", "%t"), "down")
	})
	s.finished()

	stdout, stderr := kvreplay(t, 1, "batch", "status", path)
	if !strings.Contains(stderr, "missing: --array=") || !slices.Contains(strings.FieldsFunc(stderr, func(r rune) bool { return strings.ContainsRune("=,\n", r) }), killed.index) {
		t.Errorf("shard %s was killed, status says\n%s%s", killed.index, stdout, stderr)
	}
	s.submit(stdout)
	s.finished()
	must(t, "batch", "status", path)
	many := filepath.Join(t.TempDir(), "many")
	must(t, "batch", "merge", path, "--out", many)
	sameTree(t, one, many)
	t.Logf("killed the process of shard %s, the node of shard %s, and requeued shard %s: equal after %.1f s", killed.index, lost.index, requeued.index, time.Since(began).Seconds())
	logs, _ := filepath.Glob(s.dir + "/slurm-*.out")
	for _, log := range logs {
		if text := content(t, log); strings.Contains(text, "interrupted in") {
			return
		}
	}
	t.Log("the requeued task ended before it got SIGTERM, or before its first chunk")
}
