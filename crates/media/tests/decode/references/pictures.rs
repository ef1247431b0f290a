//! Pictures, as references and as keyframes.

use super::*;

#[test]
fn reference_pictures_of_each_format_grow_to_their_size() {
    let bench = Bench::new();
    let jpeg = bench.make("-f lavfi -i testsrc=s=60x40:d=0.1:r=10 -frames:v 1 -f image2pipe -c:v mjpeg", "jpeg");
    let upright = bench.write("upright", with_orientation(&std::fs::read(&jpeg).unwrap(), 6, true));
    let webp = bench.make("-f lavfi -i testsrc=s=60x40:d=0.1:r=10 -frames:v 1 -c:v libwebp -f webp", "webp");
    let files = [&halves(&bench, "60:40", "png"), &jpeg, &upright, &webp, &heic(&bench, "heic.heic")];
    let spec = accepted(&bench, &files, 22, references());
    let sides: Vec<_> = spec.inputs.iter().map(|input| (input.shape.width, input.shape.height)).collect();
    assert_eq!(sides, [(96, 64), (96, 64), (64, 96), (96, 64), (128, 64)]);
    for (path, prepared) in files.iter().zip(prepared(&bench, &spec)) {
        let expected = fit_reference_picture(&picture(&bench, path), &spec.geometry).unwrap();
        assert!(prepared == PreparedReference::Image(expected), "{path:?}");
    }
}

#[test]
fn keyframes_fill_the_canvas_as_their_recipe_has_it() {
    let bench = Bench::new();
    let (first, second) = (halves(&bench, "64:32", "first"), halves(&bench, "40:40", "second"));
    for recipe in Recipe::ALL {
        let request = VideoRequest { recipe: Some(recipe), ..VideoRequest::default() };
        let spec = accepted(&bench, &[&first, &second], 22, request.clone());
        assert_eq!(
            spec.inputs.iter().map(|input| input.role).collect::<Vec<_>>(),
            [InputRole::FirstFrame, InputRole::LastFrame]
        );
        let expected = [&first, &second].into_iter().enumerate().map(|(position, path)| {
            PreparedReference::Image(fit_keyframe(&picture(&bench, path), spec.canvas, position, recipe).unwrap())
        });
        assert!(prepared(&bench, &spec) == expected.collect::<Vec<_>>(), "{recipe}");

        // The last frame alone is the first of the request.
        let request = VideoRequest { frame_indices: Some(vec![-1]), size: Some("64x32".to_owned()), ..request };
        let spec = accepted(&bench, &[&second], 22, request);
        assert_eq!(spec.inputs[0].role, InputRole::LastFrame);
        let stretched = fit_keyframe(&picture(&bench, &second), spec.canvas, 0, recipe).unwrap();
        assert!(prepared(&bench, &spec) == [PreparedReference::Image(stretched)], "{recipe}");
    }
}
