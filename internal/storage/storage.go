// Package storage reads and writes files in folders and in object stores that speak the S3 protocol.
//
// A Store has five functions: Stat, Get, Put, Remove and List. Everything else is built from them. Open reads
// ranges of a large object, and Stage copies an object to a file. The credentials come from the
// variables and files that other S3 programs use.
package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Scheme is the beginning of the URL of an object: s3://bucket/key.
const Scheme = "s3://"

// IsURL reports whether a path is the URL of an object, and not a file.
func IsURL(path string) bool { return strings.HasPrefix(path, Scheme) }

// Info describes an object.
type Info struct {
	Name string // in its Store
	Size int64  // in bytes
	Tag  string // changes with the content: the ETag, empty for files
}

// Store is a folder, or the objects of a bucket whose keys begin with a prefix. Names have slashes. An
// error of a name that does not exist is fs.ErrNotExist.
type Store interface {
	// Stat describes an object.
	Stat(ctx context.Context, name string) (Info, error)
	// Get describes an object and reads its bytes from from to to, without to. If to is negative, it
	// reads to the end. If from is negative, it reads the last -from bytes, or all if there are
	// fewer. If tag is not empty and the object has another, the error is ErrChanged.
	Get(ctx context.Context, name string, from, to int64, tag string) (io.ReadCloser, Info, error)
	// Put writes an object of size bytes whole or not at all. It replaces an older one.
	Put(ctx context.Context, name string, r io.Reader, size int64) error
	// Remove removes an object.
	Remove(ctx context.Context, name string) error
	// List describes the objects whose names begin with prefix, in the order of their names.
	List(ctx context.Context, prefix string) ([]Info, error)
}

// ErrChanged is the cause of the error for an object that was replaced while kvreplay read it.
var ErrChanged = errors.New("was changed while kvreplay read it")

// Error is an error of a request to an object store.
type Error struct {
	Place string // what the request was for: a URL, or the bytes of an open object. Empty if the error around it states it
	Err   error  // cause and remedy
}

// Error returns the place and the cause.
func (e *Error) Error() string {
	if e.Place == "" {
		return e.Err.Error()
	}
	return e.Place + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Unread reports whether an error is about reaching an object, and not about its content.
func Unread(err error) bool {
	var e *Error
	return errors.As(err, &e)
}

// At returns the store at a path: a folder, or s3://bucket/prefix.
func At(path string) (Store, error) {
	if !IsURL(path) {
		return folder(path), nil
	}
	bucket, prefix, err := split(path)
	if err != nil {
		return nil, err
	}
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	return newBucket(bucket, prefix)
}

// split splits s3://bucket/key.
func split(url string) (bucket, key string, err error) {
	bucket, key, _ = strings.Cut(strings.TrimPrefix(url, Scheme), "/")
	if bucket == "" || strings.ContainsAny(bucket, "?*[") {
		return "", "", &Error{url, errors.New("no bucket, expected s3://BUCKET/KEY")}
	}
	return bucket, key, nil
}

// locate returns the store of an object and its name there.
func locate(url string) (Store, string, error) {
	bucket, key, err := split(url)
	if err != nil {
		return nil, "", err
	}
	if key == "" || strings.HasSuffix(key, "/") {
		return nil, "", &Error{url, errors.New("no object, expected s3://BUCKET/KEY")}
	}
	s, err := newBucket(bucket, "")
	return s, key, err
}

// ReadFile reads a whole object of a store. An object of more than most bytes is an error.
func ReadFile(ctx context.Context, s Store, name string, most int64) ([]byte, error) {
	o, err := OpenIn(ctx, s, name)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	if o.Size() > most {
		return nil, fmt.Errorf("%s has %d bytes, expected at most %d", name, o.Size(), most)
	}
	data := make([]byte, o.Size())
	if _, err := o.ReadAt(data, 0); err != nil && err != io.EOF {
		return nil, err
	}
	return data, nil
}
