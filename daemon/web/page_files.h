// The files of the dashboard's page, which the build embeds in the binary (EmbedPage.cmake).
#pragma once

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace atolld {

struct PageFile {
  absl::string_view path;  // For example "/page.css".
  absl::string_view content_type;
  absl::string_view bytes;
};

absl::Span<const PageFile> PageFiles();

}  // namespace atolld
