// SPDX-License-Identifier: MIT
//
// The cases of channel_bench in Go, for comparison: the same steps, with goroutines. The number of
// processors comes from GOMAXPROCS.
package main

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
)

const room = 128

func pingPong(operations uint64) {
	there, back := make(chan uint64), make(chan uint64)
	go func() {
		for value := range there {
			back <- value
		}
		close(back)
	}()
	for i := uint64(0); i < operations; i++ {
		there <- i
		<-back
	}
	close(there)
}

func buffered(operations, goroutines uint64) {
	between := make(chan uint64, room)
	var senders, receivers sync.WaitGroup
	for i := uint64(0); i < goroutines; i++ {
		senders.Add(1)
		receivers.Add(1)
		go func() {
			for k := uint64(0); k < operations/goroutines; k++ {
				between <- k
			}
			senders.Done()
		}()
		go func() {
			for range between {
			}
			receivers.Done()
		}()
	}
	senders.Wait()
	close(between)
	receivers.Wait()
}

func select2(operations uint64) {
	one, two := make(chan uint64), make(chan uint64)
	go func() {
		for i := uint64(0); i < operations; i += 2 {
			one <- i
			two <- i + 1
		}
	}()
	for i := uint64(0); i < operations; i++ {
		select {
		case <-one:
		case <-two:
		}
	}
}

func mutex100(operations uint64) {
	const goroutines = 100
	var guard sync.Mutex
	var counting sync.WaitGroup
	counter := uint64(0)
	countUp := func(count uint64) {
		for i := uint64(0); i < count; i++ {
			guard.Lock()
			counter++
			guard.Unlock()
		}
		counting.Done()
	}
	counting.Add(goroutines)
	for i := 0; i < goroutines; i++ {
		go countUp(operations / goroutines)
	}
	counting.Wait()
}

func processorTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func main() {
	cases := map[string]func(uint64){
		"ping_pong":    pingPong,
		"buffered_1_1": func(operations uint64) { buffered(operations, 1) },
		"buffered_5_5": func(operations uint64) { buffered(operations, 5) },
		"select_2":     select2,
		"mutex_100":    mutex100,
	}
	name := flag.String("case", "", "which one")
	minimum := flag.Int("minimum-ms", 200, "how long to measure")
	flag.Parse()
	run := cases[*name]
	if run == nil {
		fmt.Fprintf(os.Stderr, "no such case: %s\n", *name)
		os.Exit(2)
	}
	measure := func(operations uint64) (time.Duration, time.Duration) {
		before, begin := processorTime(), time.Now()
		run(operations)
		return time.Since(begin), processorTime() - before
	}
	operations := uint64(1000)
	for {
		elapsed, _ := measure(operations)
		if elapsed >= time.Duration(*minimum)*time.Millisecond {
			break
		}
		operations *= 2
	}
	elapsed, used := measure(operations)
	fmt.Printf("{\"case\": \"%s\", \"operations\": %d, \"ns_per_op\": %.3f, "+
		"\"cpu_ns_per_op\": %.3f}\n", *name, operations,
		float64(elapsed.Nanoseconds())/float64(operations),
		float64(used.Nanoseconds())/float64(operations))
}
