#include "worker/model/checkpoint.h"

#include <ATen/Context.h>

#include <memory>
#include <string>
#include <utility>

#include "worker/model/torch_version.h"

namespace atolld {
namespace {

using Part = std::function<at::Tensor(const at::Tensor&)>;

// Stands in the graph for a whole part.
class PartNode final : public torch::autograd::Node {
 public:
  PartNode(Part part, at::Tensor x, const at::Generator& generator)
      : part_(std::move(part)),
        x_(std::move(x)),
        generator_(generator.defined() ? generator
                                       : at::globalContext().defaultGenerator(x_.device())),
        random_(generator_.get_state()),
        autocast_(AutocastEnabled(x_.device().type())) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    const at::AutoGradMode record(true);
    const at::Tensor before = generator_.get_state();
    generator_.set_state(random_);
    at::Tensor input = x_.detach();
    input.requires_grad_(true);
    at::Tensor output;
    {
      const Autocast autocast(x_.device().type(), autocast_);
      output = part_(input);
    }
    generator_.set_state(before);
    // The leaves' gradients are added where they always are; what flows on is the input's.
    torch::autograd::backward({output}, {gradients.at(0)});
    return {input.grad()};
  }

  std::string name() const override { return "Checkpointed"; }

 private:
  const Part part_;
  const at::Tensor x_;
  at::Generator generator_;
  const at::Tensor random_;
  const bool autocast_;
};

}  // namespace

at::Tensor Checkpointed(Part part, const at::Tensor& x, const at::Generator& generator) {
  if (!at::GradMode::is_enabled() || !x.requires_grad()) return part(x);
  const std::shared_ptr<PartNode> node(new PartNode(part, x, generator),
                                       torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(x));
  at::Tensor output;
  {
    const at::NoGradGuard no_grad;
    output = part(x);
  }
  torch::autograd::create_gradient_edge(output, node);
  return output;
}

}  // namespace atolld
