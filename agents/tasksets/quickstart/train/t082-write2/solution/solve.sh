#!/bin/bash
set -e
cd /app
echo strong > info.txt
echo dance > score.txt
