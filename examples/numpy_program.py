"""A NumPy program made differentiable without being rewritten: where must a cannon aim to hit?

The simulation below is plain NumPy. Called with Tensors, NumPy's functions reach Retrograd, and the distance to the
target has a gradient with respect to angle and speed through all steps of the simulation.

    python examples/numpy_program.py
"""

import argparse

import numpy as np

import retrograd as rg


def shoot(angle, speed, drag=0.01, dt=0.02, steps=150):
    """Where the ball is after ``steps`` steps of Euler's method, with air drag growing with the square of the speed."""
    position = np.zeros(2)
    velocity = speed * np.stack([np.cos(angle), np.sin(angle)])
    gravity = np.array([0.0, -9.81])
    for _ in range(steps):
        acceleration = gravity - drag * velocity * np.sqrt(np.sum(velocity**2))
        position = position + dt * velocity
        velocity = velocity + dt * acceleration
    return position


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args(arguments)

    print("in NumPy alone:", shoot(np.float64(0.8), np.float64(20.0)))
    target = np.array([35.0, 10.0])
    aim = rg.tensor(np.array([0.8, 20.0]), requires_grad=True)
    scale = rg.tensor(np.array([1e-4, 2e-2]))
    for step in range(options.steps):
        miss = shoot(aim[0], aim[1]) - target
        loss = np.sum(miss**2)
        loss.backward()
        with rg.no_grad():
            aim -= scale * aim.grad
        aim.grad = None
        if step % 15 == 0:
            print(f"step {step:3}: {np.sqrt(loss.item()):.3f} m off")
    angle, speed = aim.tolist()
    print(f"aim at {np.degrees(angle):.2f} degrees with {speed:.2f} m/s: {shoot(angle, speed).round(3)}")


if __name__ == "__main__":
    main()
