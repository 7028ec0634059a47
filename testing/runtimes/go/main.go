// Managed memory in a Go program: goroutines touch pages that the device has written, on stacks
// that grow, while the runtime takes faults of its own for nil pointers and interrupts threads for
// its collector.
package main

/*
#cgo CFLAGS: -I${SRCDIR}/.. -Wno-unused-function
#cgo LDFLAGS: -ldl
#include "driver.h"

static uintptr_t device_memory(size_t bytes) {
    uintptr_t p = 0;
    return drv_alloc(&p, bytes) ? 0 : p;
}
static int to_device(uintptr_t to, uintptr_t from, size_t n) {
    return drv_to_device(to, (const void *)from, n);
}
static int to_host(void *to, uintptr_t from, size_t n) { return drv_to_host(to, from, n); }
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"
)

const (
	goroutines = 8
	rounds     = 12
	words      = 1 << 18
	bytes      = 4 * words
)

func check(rc C.int) {
	if rc != 0 {
		panic(fmt.Sprint("the driver says ", rc))
	}
}

func memory(p C.uintptr_t) C.uintptr_t {
	if p == 0 {
		panic("no memory")
	}
	return p
}

// What lies at an address of the driver's, which Go's collector does not know.
func at(p C.uintptr_t) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&p))
}

// Whether the runtime makes a panic of a nil pointer.
func panics(p *int) (said bool) {
	defer func() { said = recover() != nil }()
	return *p == 1
}

// Takes more stack than a goroutine has at first.
func deep(n int) byte {
	var a [256]byte
	a[n%len(a)] = 1
	if n == 0 {
		return a[0]
	}
	return deep(n-1) + a[1]
}

// Gives the collector work, whose signals interrupt what other threads wait for.
func litter(done *atomic.Bool) {
	var keep [][]byte
	for !done.Load() {
		keep = append(keep, make([]byte, 64))
		if len(keep) == 10000 {
			keep = nil
			runtime.GC()
		}
	}
}

func compute(g int) (sum uint64, nils int) {
	managed := memory(C.driver_managed(bytes))
	device := memory(C.device_memory(bytes))
	seen := unsafe.Slice((*uint32)(at(managed)), words)
	local := make([]uint32, words)
	for round := 0; round < rounds; round++ {
		check(C.driver_fill(managed, C.uint(round*16+g), words))
		deep(100 * round)
		for i := 0; i < words; i += 511 {
			sum += uint64(seen[i])
		}
		for i := 0; i < words; i += 1024 {
			seen[i] = uint32(i)
		}
		if panics(nil) {
			nils++
		}
		check(C.to_device(device, managed, bytes))
		check(C.to_host(unsafe.Pointer(&local[0]), device, bytes))
		for i := 0; i < words; i += 7 {
			sum += uint64(local[i])
		}
	}
	return sum, nils
}

// Has the kernel read what the device wrote, without the C library: nil, or the error of the call.
func write() error {
	managed := memory(C.driver_managed(bytes))
	check(C.driver_fill(managed, 0x41414141, words))
	file, err := os.CreateTemp("", "busbar-go")
	if err != nil {
		panic(err)
	}
	defer os.Remove(file.Name())
	if _, err = file.Write(unsafe.Slice((*byte)(at(managed)), bytes)); err != nil {
		return err
	}
	back, err := os.ReadFile(file.Name())
	for _, b := range back {
		if b != 0x41 {
			return errors.New("it is not what the device wrote")
		}
	}
	return err
}

func main() {
	runtime.LockOSThread()
	check(C.driver_init())
	var done atomic.Bool
	go litter(&done)
	var all sync.WaitGroup
	var sums [goroutines]uint64
	var nils [goroutines]int
	for g := 0; g < goroutines; g++ {
		all.Add(1)
		go func(g int) {
			defer all.Done()
			runtime.LockOSThread()
			check(C.driver_enter())
			sums[g], nils[g] = compute(g)
		}(g)
	}
	all.Wait()
	done.Store(true)
	fmt.Println("sums", sums)
	fmt.Println("nil pointers", nils)
	err := write()
	if errors.Is(err, syscall.EFAULT) {
		err = syscall.EFAULT
	}
	fmt.Println("write past the C library:", err)
}
