package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Time limits of requests. Tests make them shorter.
var (
	// stall is the time without any byte after which a request is repeated.
	stall = 30 * time.Second
	// patience is the time after which a request that has no answer fails, with its repetitions.
	patience = 2 * time.Minute
	// retries is the number of attempts at a request that a store refuses for a while.
	retries = 10
)

// bucket is the Store of the objects of a bucket whose keys begin with a prefix.
type bucket struct {
	client minio.Core
	name   string
	prefix string
	creds  *credentials.Credentials
	where  string // of the server, for messages
}

// endpoint returns the address of the server and whether requests to it are encrypted.
func endpoint() (host string, secure bool, err error) {
	text := cmp.Or(os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"))
	if text == "" {
		return "s3.amazonaws.com", true, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" {
		return "", false, fmt.Errorf("AWS_ENDPOINT_URL %q, expected http://HOST:PORT or https://HOST", text)
	}
	return u.Host, u.Scheme == "https", nil
}

// metadataTimeout limits the search for a role of the machine, whose address answers at once where it
// exists.
const metadataTimeout = 2 * time.Second

// chain finds credentials as other S3 programs do: in variables, in the files of AWS_PROFILE, and in
// the role of the machine or the container.
func chain() *credentials.Credentials {
	providers := []credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}}
	if os.Getenv("AWS_EC2_METADATA_DISABLED") != "true" {
		providers = append(providers, &credentials.IAM{Client: &http.Client{Timeout: metadataTimeout}})
	}
	return credentials.NewChainCredentials(providers)
}

// clients are made once per environment, because each has its own connections.
var clients sync.Map // of settings to *bucket without name and prefix

// newBucket returns the objects of a bucket whose keys begin with prefix.
func newBucket(name, prefix string) (*bucket, error) {
	host, secure, err := endpoint()
	if err != nil {
		return nil, err
	}
	region := cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
	if region == "" && host != "s3.amazonaws.com" {
		region = "us-east-1" // servers other than AWS mostly have only this one
	}
	key := fmt.Sprint(host, secure, region, os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY"),
		os.Getenv("AWS_SESSION_TOKEN"), os.Getenv("AWS_PROFILE"), os.Getenv("AWS_SHARED_CREDENTIALS_FILE"), stall, retries)
	shared, ok := clients.Load(key)
	if !ok {
		transport, err := minio.DefaultTransport(secure)
		if err != nil {
			return nil, err
		}
		transport.ResponseHeaderTimeout = stall
		b := &bucket{creds: chain(), where: host}
		client, err := minio.NewCore(host, &minio.Options{Creds: b.creds, Secure: secure, Region: region, Transport: bodies{transport}, MaxRetries: retries})
		if err != nil {
			return nil, fmt.Errorf("AWS_ENDPOINT_URL: %w", err)
		}
		b.client = *client
		shared, _ = clients.LoadOrStore(key, b)
	}
	b := *shared.(*bucket)
	b.name, b.prefix = name, prefix
	return &b, nil
}

// fail returns the error of a request for an object.
func (b *bucket) fail(name string, err error) error {
	if err == nil {
		return nil
	}
	return b.refuse(name, b.explain(err))
}

// refuse returns an error about an object, whose text is complete.
func (b *bucket) refuse(name string, err error) error {
	return &Error{Scheme + b.name + "/" + b.prefix + name, err}
}

// deniedCodes are the codes of wrong credentials. The last one is versitygw's, with status 404.
var deniedCodes = []string{minio.AccessDenied, "InvalidAccessKeyId", "SignatureDoesNotMatch", "XAdminUserNotFound"}

// explain adds the remedy to an error of a request.
func (b *bucket) explain(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	var r minio.ErrorResponse
	if !errors.As(err, &r) {
		if n := net.Error(nil); errors.As(err, &n) && n.Timeout() || errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("%s does not answer within %v. Check AWS_ENDPOINT_URL, or run again later: %w", b.where, stall, err)
		}
		return fmt.Errorf("no connection to %s. Check AWS_ENDPOINT_URL: %w", b.where, err)
	}
	code := r.Code
	switch {
	case code == minio.PreconditionFailed || r.StatusCode == http.StatusPreconditionFailed:
		return fmt.Errorf("%w, expected the same ETag to the end. Run again when no program writes to it", ErrChanged)
	case code == minio.NoSuchBucket:
		return fmt.Errorf("no bucket %s at %s: %w", b.name, b.where, fs.ErrNotExist)
	case code == "ExpiredToken" || code == "ExpiredTokenException" || code == "RequestExpired":
		return fmt.Errorf("the credentials have expired (%s). Get new ones, as with `aws sso login`, and run again", code)
	case r.StatusCode == http.StatusForbidden || r.StatusCode == http.StatusUnauthorized || slices.Contains(deniedCodes, code):
		return b.denied(code)
	case code == minio.NoSuchKey:
		return fmt.Errorf("no such object at %s: %w", b.where, fs.ErrNotExist)
	case r.StatusCode == http.StatusServiceUnavailable || r.StatusCode == http.StatusTooManyRequests:
		return fmt.Errorf("%s refused %d attempts (%s). Run again later, or with fewer processes", b.where, retries, code)
	}
	return fmt.Errorf("%s: %s (%s, status %d)", b.where, cmp.Or(r.Message, "request failed"), code, r.StatusCode)
}

// denied returns the error of a request that the store does not allow.
func (b *bucket) denied(code string) error {
	v, err := b.creds.GetWithContext(nil)
	if err != nil || v.AccessKeyID == "" {
		return fmt.Errorf("access denied without credentials (%s). Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE", code)
	}
	return fmt.Errorf("access denied to the key %s (%s). Check the credentials in AWS_ACCESS_KEY_ID or AWS_PROFILE, and their rights to the bucket %s", v.AccessKeyID, code, b.name)
}

// Stat describes an object.
func (b *bucket) Stat(ctx context.Context, name string) (Info, error) {
	o, err := b.client.StatObject(ctx, b.name, b.prefix+name, minio.StatObjectOptions{})
	if r := minio.ToErrorResponse(err); err != nil && r.StatusCode >= 400 && r.StatusCode < 500 {
		// The answer to HEAD has no body and so no cause. GET states it.
		if body, _, err := b.Get(ctx, name, 0, 1, ""); err != nil {
			return Info{}, err
		} else {
			body.Close()
		}
	}
	if err != nil {
		return Info{}, b.fail(name, err)
	}
	return b.described(name, o)
}

// described returns the Info of an object.
func (b *bucket) described(name string, o minio.ObjectInfo) (Info, error) {
	if o.ETag == "" {
		return Info{}, b.refuse(name, errors.New("the store states no ETag, without which a change would not be noticed. Upload the object through the store"))
	}
	return Info{name, o.Size, o.ETag}, nil
}

// empty describes an object of which no byte is read.
func (b *bucket) empty(ctx context.Context, name string) (io.ReadCloser, Info, error) {
	info, err := b.Stat(ctx, name)
	return io.NopCloser(strings.NewReader("")), info, err
}

// sizeOf returns the size of an object from an answer with its bytes from byte from on. It returns an
// error if the answer has other bytes. An answer without a range has the whole object.
func sizeOf(header http.Header, length, from int64) (size int64, err error) {
	first, last, size := int64(0), length-1, length
	if text := header.Get("Content-Range"); text != "" {
		if _, err := fmt.Sscanf(text, "bytes %d-%d/%d", &first, &last, &size); err != nil {
			return 0, fmt.Errorf("answered with the range %q, expected bytes FIRST-LAST/SIZE. Copy the object to a file, and name that", text)
		}
	}
	if size < 0 {
		return 0, errors.New("answered without the size of the object. Copy the object to a file, and name that")
	}
	if from < 0 {
		from = max(0, size+from)
	}
	if first != from {
		return 0, fmt.Errorf("answered with bytes %d to %d, expected those from %d. Copy the object to a file, and name that", first, last, from)
	}
	return size, nil
}

// Get describes an object and reads a part of it.
func (b *bucket) Get(ctx context.Context, name string, from, to int64, tag string) (io.ReadCloser, Info, error) {
	var o minio.GetObjectOptions
	var err error
	switch {
	case from < 0:
		err = o.SetRange(0, from)
	case to > from:
		err = o.SetRange(from, to-1)
	case to >= 0:
		return b.empty(ctx, name)
	case from > 0:
		err = o.SetRange(from, 0)
	}
	if err == nil && tag != "" {
		err = o.SetMatchETag(tag)
	}
	if err != nil {
		return nil, Info{}, err
	}
	whole := ctx
	ctx, cancel := context.WithCancel(whole)
	answer := time.AfterFunc(patience, cancel)
	body, object, header, err := b.client.GetObject(ctx, b.name, b.prefix+name, o)
	if !answer.Stop() && err != nil {
		err = context.DeadlineExceeded
	}
	if err != nil {
		cancel()
		if from < 0 && minio.ToErrorResponse(err).StatusCode == http.StatusRequestedRangeNotSatisfiable {
			return b.empty(whole, name)
		}
		return nil, Info{}, b.fail(name, err)
	}
	w := &watched{body: body, cancel: cancel, timer: time.AfterFunc(stall, cancel), fail: func(err error) error { return b.fail(name, err) }}
	if object.Size, err = sizeOf(header, object.Size, from); err != nil {
		w.Close()
		return nil, Info{}, b.refuse(name, fmt.Errorf("%s %w", b.where, err))
	}
	info, err := b.described(name, object)
	if err != nil {
		w.Close()
		return nil, Info{}, err
	}
	return w, info, nil
}

// watched is the body of an answer. It ends with an error if no byte arrives for a while.
type watched struct {
	body   io.ReadCloser
	cancel context.CancelFunc
	timer  *time.Timer
	fail   func(error) error
}

// Read reads the next bytes.
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.body.Read(p)
	if !w.timer.Reset(stall) && n == 0 && err != nil && err != io.EOF {
		err = context.DeadlineExceeded // the timer has cancelled the request
	}
	if err != nil && err != io.EOF {
		err = w.fail(err)
	}
	return n, err
}

// Close ends the request.
func (w *watched) Close() error {
	w.timer.Stop()
	w.cancel()
	return w.body.Close()
}

// Put writes an object in one request. An upload that is cut leaves the older object, or none.
func (b *bucket) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	// Servers may leave the closing chunk of a signed empty body unread, and take it for a request.
	o := minio.PutObjectOptions{DisableContentSha256: size == 0}
	_, err := b.client.PutObject(ctx, b.name, b.prefix+name, r, size, "", "", o)
	return b.fail(name, err)
}

// Remove removes an object.
func (b *bucket) Remove(ctx context.Context, name string) error {
	return b.fail(name, b.client.RemoveObject(ctx, b.name, b.prefix+name, minio.RemoveObjectOptions{}))
}

// List describes the objects below the prefix.
func (b *bucket) List(ctx context.Context, prefix string) (list []Info, err error) {
	for token := ""; ; {
		page, err := b.client.ListObjectsV2(b.name, b.prefix+prefix, "", token, "", 0)
		if err != nil {
			return nil, b.fail(prefix, err)
		}
		for _, o := range page.Contents {
			list = append(list, Info{strings.TrimPrefix(o.Key, b.prefix), o.Size, o.ETag})
		}
		if token = page.NextContinuationToken; !page.IsTruncated || token == "" {
			sortNames(list)
			return list, ctx.Err()
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

func sortNames(list []Info) {
	slices.SortFunc(list, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
}
