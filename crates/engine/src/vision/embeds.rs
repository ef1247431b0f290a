//! What the vision tower hands to the language model.

use crate::ops::Tensor;

/// The tokens of one kind of pixels, all pictures or all videos of a request, in request order.
pub struct VisionFeatures<B> {
    /// What stands in for the embeddings of the placeholder tokens, `[tokens, out_hidden]`.
    pub pooled: Tensor<B>,
    /// What is added after each of the first layers of the language model, `[tokens, out_hidden]` each.
    pub deepstack: Vec<Tensor<B>>,
}

/// The tokens of a request's pictures and videos.
pub struct VisionEmbeds<B> {
    /// Of its pictures, if it has any.
    pub images: Option<VisionFeatures<B>>,
    /// Of its videos, if it has any.
    pub videos: Option<VisionFeatures<B>>,
}

impl<B> VisionEmbeds<B> {
    /// Returns what a request of text alone has.
    pub fn none() -> Self {
        Self { images: None, videos: None }
    }
}
