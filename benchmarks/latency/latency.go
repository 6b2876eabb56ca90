// SPDX-License-Identifier: MIT
//
// The cases of latency_bench in Go, for comparison: the same steps, with goroutines. The number of
// processors comes from GOMAXPROCS.
package main

import (
	"flag"
	"fmt"
	"net"
	"os"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

type samples []time.Duration

func (found *samples) add(latency time.Duration) { *found = append(*found, latency) }

func (found samples) print() {
	sort.Slice(found, func(i, k int) bool { return found[i] < found[k] })
	quantile := func(fraction float64) float64 {
		at := int(fraction*float64(len(found)-1) + 0.5)
		return float64(found[at].Nanoseconds()) / 1000
	}
	fmt.Printf("{\"runtime\": \"go\", \"samples\": %d, \"p50_us\": %.3f, \"p90_us\": %.3f, "+
		"\"p99_us\": %.3f, \"p999_us\": %.3f, \"max_us\": %.3f}\n", len(found),
		quantile(0.5), quantile(0.9), quantile(0.99), quantile(0.999), quantile(1))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func spin(length time.Duration) {
	for begin := time.Now(); time.Since(begin) < length; {
	}
}

func hog(over *atomic.Bool, done *sync.WaitGroup) {
	work := 0
	for !over.Load() {
		for i := 0; i < 1000; i++ {
			work++
		}
		runtime.Gosched()
	}
	done.Done()
}

func echoBytes(connection net.Conn) {
	buffer := make([]byte, 1)
	for {
		if _, err := connection.Read(buffer); err != nil {
			return
		}
		_, err := connection.Write(buffer)
		check(err)
	}
}

// A connection over loopback: the end that is served by goroutines, and its peer.
func connectionPair() (net.Conn, net.Conn) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	defer listener.Close()
	peer, err := net.Dial("tcp", listener.Addr().String())
	check(err)
	served, err := listener.Accept()
	check(err)
	return served, peer
}

func hogEcho(found *samples, rounds int) {
	served, client := connectionPair()
	go echoBytes(served)
	var over atomic.Bool
	var done sync.WaitGroup
	for i := 0; i < 2*runtime.GOMAXPROCS(0); i++ {
		done.Add(1)
		go hog(&over, &done)
	}
	buffer := make([]byte, 1)
	for i := 0; i < rounds; i++ {
		begin := time.Now()
		_, err := client.Write(buffer)
		check(err)
		_, err = client.Read(buffer)
		check(err)
		found.add(time.Since(begin))
	}
	over.Store(true)
	done.Wait()
}

// The other end of a connection as a plain descriptor that blocks its thread.
func outsideEnd(peer net.Conn) int {
	file, err := peer.(*net.TCPConn).File()
	check(err)
	defer file.Close()
	fd, err := syscall.Dup(int(file.Fd()))
	check(err)
	check(syscall.SetNonblock(fd, false))
	return fd
}

func echoOne(connection net.Conn) {
	buffer := make([]byte, 1)
	_, err := connection.Read(buffer)
	check(err)
	_, err = connection.Write(buffer)
	check(err)
}

// Each round has a connection of its own, as that of weft has, and the byte comes at any time of a
// step.
func busySocket(found *samples, rounds int) {
	for i := 0; i < rounds; i++ {
		served, peer := connectionPair()
		fd := outsideEnd(peer)
		echoed := make(chan bool)
		go func() {
			echoOne(served)
			close(echoed)
		}()
		runtime.Gosched()
		var answered atomic.Bool
		client := make(chan time.Duration, 1)
		go func() {
			runtime.LockOSThread()
			buffer := make([]byte, 1)
			pause := syscall.NsecToTimespec(int64(i % 10 * 500000))
			syscall.Nanosleep(&pause, nil)
			begin := time.Now()
			_, err := syscall.Write(fd, buffer)
			check(err)
			_, err = syscall.Read(fd, buffer)
			check(err)
			client <- time.Since(begin)
			answered.Store(true)
		}()
		for !answered.Load() {
			spin(5 * time.Millisecond)
			runtime.Gosched()
		}
		found.add(<-client)
		<-echoed
		check(served.Close())
		check(peer.Close())
		check(syscall.Close(fd))
	}
}

func chain(over *atomic.Bool) {
	if !over.Load() {
		go chain(over)
	}
}

func spawnChain(found *samples, rounds int) {
	var over atomic.Bool
	for i := 0; i < runtime.GOMAXPROCS(0); i++ {
		go chain(&over)
	}
	for i := 0; i < rounds; i++ {
		begin := time.Now()
		runtime.Gosched()
		found.add(time.Since(begin))
	}
	over.Store(true)
}

const stuckFor = 100 * time.Millisecond
const readyAfter = 3 * time.Millisecond
const betweenRounds = 20 * time.Millisecond

func stuckReady(found *samples) {
	stamped := make(chan time.Time, 1)
	begin := time.Now()
	go func() { stamped <- time.Now() }()
	spin(stuckFor)
	found.add((<-stamped).Sub(begin))
}

func stuckTimer(found *samples) {
	stamped := make(chan time.Time, 1)
	due := time.Now().Add(readyAfter)
	go func() {
		time.Sleep(time.Until(due))
		stamped <- time.Now()
	}()
	runtime.Gosched()
	spin(stuckFor)
	found.add((<-stamped).Sub(due))
}

func stuckSocket(found *samples, served net.Conn, fd int) {
	stamped := make(chan time.Time, 1)
	written := make(chan time.Time, 1)
	go func() {
		_, err := served.Read(make([]byte, 1))
		check(err)
		stamped <- time.Now()
	}()
	runtime.Gosched()
	go func() {
		runtime.LockOSThread()
		pause := syscall.NsecToTimespec(readyAfter.Nanoseconds())
		syscall.Nanosleep(&pause, nil)
		written <- time.Now()
		_, err := syscall.Write(fd, make([]byte, 1))
		check(err)
	}()
	runtime.Gosched()
	spin(stuckFor)
	found.add((<-stamped).Sub(<-written))
}

func stuckSocketRound(found *samples) func() {
	served, peer := connectionPair()
	fd := outsideEnd(peer)
	return func() { stuckSocket(found, served, fd) }
}

func makeRounds(rounds int, round func()) {
	for i := 0; i < rounds; i++ {
		time.Sleep(betweenRounds)
		round()
	}
}

// A goroutine works in steps of 1 ms on the other processor.
func makeRoundsAllBusy(rounds int, round func()) {
	for i := 0; i < rounds; i++ {
		var begun, over atomic.Bool
		done := make(chan bool)
		go func() {
			for !over.Load() {
				begun.Store(true)
				spin(time.Millisecond)
				runtime.Gosched()
			}
			close(done)
		}()
		for !begun.Load() {
			time.Sleep(time.Millisecond)
		}
		// Whatever has been left behind by the round before is gone, and the two have parted.
		time.Sleep(betweenRounds)
		round()
		over.Store(true)
		<-done
	}
}

func sleep50us(found *samples, rounds int) {
	for i := 0; i < rounds; i++ {
		begin := time.Now()
		time.Sleep(50 * time.Microsecond)
		found.add(time.Since(begin))
	}
}

func blockingTicker(found *samples, rounds int) {
	var over atomic.Bool
	for i := 0; i < 200; i++ {
		go func() {
			for !over.Load() {
				pause := syscall.NsecToTimespec(50000000)
				syscall.Nanosleep(&pause, nil)
			}
		}()
	}
	time.Sleep(100 * time.Millisecond)
	due := time.Now()
	for i := 0; i < rounds; i++ {
		due = due.Add(time.Millisecond)
		time.Sleep(time.Until(due))
		found.add(time.Since(due))
	}
	over.Store(true)
}

func main() {
	cases := map[string]struct {
		run    func(*samples, int)
		rounds int
	}{
		"hog_echo":    {hogEcho, 100},
		"busy_socket": {busySocket, 300},
		"spawn_chain": {spawnChain, 3},
		"stuck_ready": {func(found *samples, rounds int) {
			makeRounds(rounds, func() { stuckReady(found) })
		}, 50},
		"stuck_timer": {func(found *samples, rounds int) {
			makeRounds(rounds, func() { stuckTimer(found) })
		}, 50},
		"stuck_socket": {func(found *samples, rounds int) {
			makeRounds(rounds, stuckSocketRound(found))
		}, 50},
		"stuck_ready_all_busy": {func(found *samples, rounds int) {
			makeRoundsAllBusy(rounds, func() { stuckReady(found) })
		}, 50},
		"stuck_timer_all_busy": {func(found *samples, rounds int) {
			makeRoundsAllBusy(rounds, func() { stuckTimer(found) })
		}, 50},
		"stuck_socket_all_busy": {func(found *samples, rounds int) {
			makeRoundsAllBusy(rounds, stuckSocketRound(found))
		}, 50},
		"sleep_50us":      {sleep50us, 2000},
		"blocking_ticker": {blockingTicker, 3000},
	}
	name := flag.String("case", "", "which case")
	rounds := flag.Int("rounds", 0, "how many rounds; 0: as many as the case wants")
	flag.Parse()
	chosen, known := cases[*name]
	if !known {
		fmt.Fprintln(os.Stderr, "unknown case; see latency_bench")
		os.Exit(2)
	}
	if *rounds == 0 {
		*rounds = chosen.rounds
	}
	var found samples
	chosen.run(&found, *rounds)
	found.print()
}
