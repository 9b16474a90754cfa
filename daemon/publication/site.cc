#include "daemon/publication/site.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compression/base/bytes.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

constexpr size_t kFolderPiece = size_t{1} << 20;

absl::Status OtherLength(uint64_t found, uint64_t wanted) {
  return absl::DataLossError(absl::StrCat("it has ", found, " bytes, run.json says ", wanted));
}

absl::Status TooLong(uint64_t limit) {
  return absl::DataLossError(
      absl::StrCat("it has more than the ", limit, " bytes that such a file can have"));
}

class FolderSite final : public Site {
 public:
  FolderSite(Files& files, std::string folder) : files_(files), folder_(std::move(folder)) {}

  std::string Place(const std::string& file) const override {
    return absl::StrCat(folder_, "/", file);
  }
  std::optional<std::string> PathOf(const std::string& file) const override { return Place(file); }

  absl::Status Read(const std::string& file, const Part& part, const Take& take) override {
    ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> opened, files_.OpenToRead(Place(file)));
    if (opened->size() != part.whole) {
      return Annotate(OtherLength(opened->size(), part.whole), Place(file));
    }
    std::vector<uint8_t> piece(std::min<uint64_t>(kFolderPiece, part.count));
    for (uint64_t done = 0; done < part.count;) {
      const uint64_t count = std::min<uint64_t>(piece.size(), part.count - done);
      const absl::Span<uint8_t> bytes = absl::MakeSpan(piece).subspan(0, count);
      RETURN_IF_ERROR(opened->ReadAt(part.first + done, bytes));
      RETURN_IF_ERROR(take(bytes));
      done += count;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> ReadShort(const std::string& file, uint64_t limit) override {
    ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> opened, files_.OpenToRead(Place(file)));
    if (opened->size() > limit) return Annotate(TooLong(limit), Place(file));
    return ReadFile(files_, Place(file), limit);
  }

 private:
  Files& files_;
  const std::string folder_;
};

class WebSite final : public Site {
 public:
  WebSite(std::string url, const HttpClient::Options& options)
      : url_(std::move(url)), client_(options) {}

  std::string Place(const std::string& file) const override { return absl::StrCat(url_, file); }
  std::optional<std::string> PathOf(const std::string&) const override { return std::nullopt; }

  // HttpClient puts the URL in front of every error.
  absl::Status Read(const std::string& file, const Part& part, const Take& take) override {
    if (part.count == 0) return absl::OkStatus();
    const bool all = part.count == part.whole;
    std::optional<HttpClient::Range> range;
    if (!all) range = HttpClient::Range{part.first, part.count};
    uint64_t got = 0;
    const auto on_head = [&](const HttpClient::Answer& head) {
      if (head.whole && *head.whole != part.whole) return OtherLength(*head.whole, part.whole);
      if (all || head.partial) return absl::OkStatus();
      return absl::UnimplementedError("the server gives no parts of a file");
    };
    const auto on_body = [&](absl::Span<const uint8_t> bytes) {
      if (bytes.size() > part.count - got) {
        return absl::DataLossError(absl::StrCat("the server sends more than the ", part.count,
                                                " bytes that were asked for"));
      }
      got += bytes.size();
      return take(bytes);
    };
    RETURN_IF_ERROR(client_.Get(Place(file), range, part.count, on_head, on_body).status());
    if (got == part.count) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(Place(file), ": the server sent ", got,
                                            " bytes of the ", part.count, " asked for"));
  }

  absl::StatusOr<std::string> ReadShort(const std::string& file, uint64_t limit) override {
    std::string text;
    const auto on_head = [&](const HttpClient::Answer& head) {
      return head.whole && *head.whole > limit ? TooLong(limit) : absl::OkStatus();
    };
    const auto on_body = [&](absl::Span<const uint8_t> bytes) {
      if (bytes.size() > limit - text.size()) return TooLong(limit);
      text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(client_.Get(Place(file), std::nullopt, limit, on_head, on_body).status());
    return text;
  }

 private:
  const std::string url_;  // ends with "/"
  HttpClient client_;
};

}  // namespace

std::unique_ptr<Site> OpenFolderSite(Files& files, const std::string& folder) {
  return std::make_unique<FolderSite>(files, folder);
}

absl::StatusOr<std::unique_ptr<Site>> OpenWebSite(const std::string& url,
                                                  const HttpClient::Options& options) {
  ASSIGN_OR_RETURN(Url parsed, ParseUrl(url));
  // People paste the address of the page, or of run.json.
  for (const absl::string_view name : {"/index.html", "/run.json"}) {
    if (absl::EndsWith(parsed.path, name)) parsed.path.resize(parsed.path.size() - name.size());
  }
  if (!absl::EndsWith(parsed.path, "/")) parsed.path += '/';
  return std::unique_ptr<Site>(std::make_unique<WebSite>(parsed.Text(), options));
}

}  // namespace atolld
