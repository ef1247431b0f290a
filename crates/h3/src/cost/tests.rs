use super::*;

fn canvas(width: u32, height: u32) -> Canvas {
    Canvas::new(width, height).unwrap()
}

fn frames(count: u32) -> FrameCount {
    FrameCount::new(count).unwrap()
}

#[test]
fn a_forward_costs_what_the_published_shapes_say() {
    let transformer = CostModel::released().transformer;
    for (rows, expected) in [(37_810, 3507.0), (63_292, 8182.0), (104_066, 19536.0), (19_384, 1286.0)] {
        let cost = transformer.forward(rows).get();
        assert!((cost - expected).abs() < 1.0, "{rows} rows: {cost}");
    }
}

#[test]
fn decoding_costs_what_the_published_shapes_say() {
    let decoder = CostModel::released().video_decoder;
    let landscape = canvas(1344, 768);
    assert_eq!((decoder.tiles(1344), decoder.tiles(768)), (7, 4));
    assert_eq!(decoder.chunks(frames(124)), 7);
    let cost = decoder.decode(landscape, frames(124)).get();
    assert!((cost - 1893.0).abs() < 2.0, "{cost}");
    let cost = decoder.decode(landscape, frames(345)).get();
    assert!((cost - 5408.0).abs() < 5.0, "{cost}");
}

#[test]
fn tiles_cover_a_side_with_the_least_overlap_and_no_fewer_would() {
    let decoder = CostModel::released().video_decoder;
    let cover = |tiles: u32| 256 * tiles - 64 * (tiles - 1);
    for length in (32..3000).step_by(32) {
        let tiles = decoder.tiles(length);
        assert!(cover(tiles) >= length, "{length}: {tiles}");
        assert!(tiles == 1 || cover(tiles - 1) < length, "{length}: {tiles}");
    }
}

#[test]
fn a_run_is_its_forwards_and_its_decoding() {
    let model = CostModel::released();
    let (canvas, frames) = (canvas(1344, 768), frames(124));
    let cost = model.generation(37_810, 49, canvas, frames).get();
    let expected = model.transformer.forward(37_810).get() * 49.0 + model.video_decoder.decode(canvas, frames).get();
    assert!((cost - expected).abs() < 1e-6);
    assert_eq!(model.generation(37_810, 49, canvas, frames).to_string(), "173711 TFLOP");
}

#[test]
fn the_largest_canvas_has_a_cost() {
    let side = u32::MAX / Canvas::MULTIPLE * Canvas::MULTIPLE;
    let cost = CostModel::released().generation(1, 1, canvas(side, side), FrameCount::MAX);
    assert!(cost.get().is_finite() && cost.get() > 1e12, "{cost}");
}
