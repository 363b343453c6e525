#!/bin/bash
set -e
cd /app
echo dark > plan.txt
echo honey > item.txt
