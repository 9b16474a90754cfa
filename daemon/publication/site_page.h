// The page of a site, page/site.html, which the build embeds in the binary (EmbedPage.cmake).
#pragma once

#include "absl/strings/string_view.h"

namespace atolld {

// "@STORY@" in it stands for the text of story.json.
absl::string_view SitePage();

}  // namespace atolld
