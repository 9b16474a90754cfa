#include "worker/data/unpacked_text.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

constexpr absl::string_view kGzip = "\x1f\x8b";
constexpr absl::string_view kZstd("\x28\xb5\x2f\xfd", 4);
constexpr size_t kRead = size_t{256} << 10;
constexpr size_t kWritten = size_t{1} << 20;
// For zlib: the largest window, and a gzip header.
constexpr int kGzipWindow = 15 + 16;

absl::Status Damaged(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("data: ", path, " is damaged: ", what));
}

// A file that is read piece by piece.
class PackedInput {
 public:
  PackedInput(int file, std::string path) : file_(file), path_(std::move(path)), buffer_(kRead) {}

  // The next piece; empty at the end.
  absl::StatusOr<absl::Span<char>> Next() {
    ssize_t got = 0;
    do {
      got = ::read(file_, buffer_.data(), buffer_.size());
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
      return absl::UnavailableError(absl::StrCat("data: ", path_, ": ", std::strerror(errno)));
    }
    return absl::MakeSpan(buffer_.data(), static_cast<size_t>(got));
  }

 private:
  const int file_;
  const std::string path_;
  std::vector<char> buffer_;
};

class OpenDescriptor {
 public:
  explicit OpenDescriptor(const std::string& path)
      : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~OpenDescriptor() {
    if (file_ >= 0) ::close(file_);
  }
  OpenDescriptor(const OpenDescriptor&) = delete;
  OpenDescriptor& operator=(const OpenDescriptor&) = delete;
  int get() const { return file_; }

 private:
  const int file_;
};

}  // namespace

bool UnpackedText::IsPacked(absl::string_view head) {
  return absl::StartsWith(head, kGzip) || absl::StartsWith(head, kZstd);
}

absl::string_view UnpackedText::NameOfContent(absl::string_view path) {
  for (const absl::string_view ending : {".gz", ".zst", ".zstd"}) {
    if (absl::ConsumeSuffix(&path, ending)) break;
  }
  return path;
}

absl::StatusOr<std::unique_ptr<UnpackedText>> UnpackedText::Make() {
  const char* named = ::getenv("TMPDIR");
  const std::string folder = named != nullptr && *named != '\0' ? named : "/tmp";
  std::string path = absl::StrCat(folder, "/atoll-unpacked-XXXXXX");
  const int file = ::mkostemp(path.data(), O_CLOEXEC);
  if (file < 0) {
    return absl::UnavailableError(absl::StrCat("data: compressed text is unpacked in ", folder,
                                               " (TMPDIR): ", std::strerror(errno)));
  }
  ::unlink(path.c_str());
  return std::unique_ptr<UnpackedText>(new UnpackedText(file, folder));
}

UnpackedText::~UnpackedText() { ::close(file_); }

absl::Status UnpackedText::Write(absl::Span<const char> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const std::string what = absl::StrCat(folder_, ": ", std::strerror(errno));
      if (errno != ENOSPC && errno != EDQUOT) return absl::UnavailableError(what);
      return absl::ResourceExhaustedError(
          absl::StrCat(what, " after ", size_, " bytes; set TMPDIR to a folder with more room"));
    }
    size_ += static_cast<uint64_t>(written);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> UnpackedText::Append(const std::string& path) {
  const OpenDescriptor from(path);
  char head[4] = {};
  if (from.get() < 0 || ::pread(from.get(), head, sizeof head, 0) < 0) {
    return absl::NotFoundError(absl::StrCat("data: ", path, ": ", std::strerror(errno)));
  }
  const uint64_t before = size_;
  const bool gzip = absl::StartsWith(absl::string_view(head, sizeof head), kGzip);
  const absl::Status status = gzip ? InflateAll(from.get(), path) : DecompressAll(from.get(), path);
  if (absl::IsInvalidArgument(status)) return status;
  RETURN_IF_ERROR(Annotate(status, absl::StrCat("data: unpacking ", path)));
  return size_ - before;
}

absl::Status UnpackedText::InflateAll(int from, const std::string& path) {
  z_stream stream = {};
  if (::inflateInit2(&stream, kGzipWindow) != Z_OK) {
    return absl::ResourceExhaustedError("no memory for zlib");
  }
  const std::unique_ptr<z_stream, int (*)(z_stream*)> ends(&stream, &::inflateEnd);
  PackedInput input(from, path);
  std::vector<char> out(kWritten);
  bool inside = true;  // of a member
  while (true) {
    ASSIGN_OR_RETURN(const absl::Span<char> piece, input.Next());
    if (piece.empty()) break;
    stream.next_in = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_in = static_cast<uInt>(piece.size());
    // A full output may have left more within.
    bool full = false;
    while (stream.avail_in > 0 || full) {
      // Zero bytes behind a member, as tapes and block devices leave them, are no text.
      if (!inside && *stream.next_in == 0) {
        ++stream.next_in;
        --stream.avail_in;
        continue;
      }
      if (!inside && ::inflateReset(&stream) != Z_OK) return Damaged(path, "zlib failed");
      inside = true;
      stream.next_out = reinterpret_cast<Bytef*>(out.data());
      stream.avail_out = static_cast<uInt>(out.size());
      const int code = ::inflate(&stream, Z_NO_FLUSH);
      if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
        return Damaged(path, stream.msg != nullptr ? stream.msg : "it is not gzip");
      }
      RETURN_IF_ERROR(Write(absl::MakeConstSpan(out.data(), out.size() - stream.avail_out)));
      inside = code != Z_STREAM_END;
      full = inside && stream.avail_out == 0;
    }
  }
  return inside ? Damaged(path, "it ends inside its compressed text") : absl::OkStatus();
}

absl::Status UnpackedText::DecompressAll(int from, const std::string& path) {
  const std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream(::ZSTD_createDStream(),
                                                                        &::ZSTD_freeDStream);
  if (stream == nullptr) return absl::ResourceExhaustedError("no memory for zstd");
  PackedInput input(from, path);
  std::vector<char> out(kWritten);
  size_t left = 1;  // 0: at the end of a frame
  while (true) {
    ASSIGN_OR_RETURN(const absl::Span<char> piece, input.Next());
    if (piece.empty()) break;
    ZSTD_inBuffer in = {piece.data(), piece.size(), 0};
    bool full = false;
    while (in.pos < in.size || full) {
      ZSTD_outBuffer to = {out.data(), out.size(), 0};
      left = ::ZSTD_decompressStream(stream.get(), &to, &in);
      if (::ZSTD_isError(left) != 0) return Damaged(path, ::ZSTD_getErrorName(left));
      RETURN_IF_ERROR(Write(absl::MakeConstSpan(out.data(), to.pos)));
      full = left != 0 && to.pos == to.size;
    }
  }
  return left == 0 ? absl::OkStatus() : Damaged(path, "it ends inside its compressed text");
}

std::string UnpackedText::Read(uint64_t first, size_t most) const {
  std::string read(most, '\0');
  const ssize_t got = ::pread(file_, read.data(), most, static_cast<off_t>(first));
  read.resize(got < 0 ? 0 : static_cast<size_t>(got));
  return read;
}

absl::Status UnpackedText::Map() {
  ASSIGN_OR_RETURN(mapped_, MappedFile::Open(absl::StrCat("/proc/self/fd/", file_)));
  return absl::OkStatus();
}

}  // namespace atolld
